# ruff: noqa: E501 - line breaks are text in a template
"""Chat templates in the wire formats of well-known families, written for these tests.

Each has its own way with Jinja, so that together they use most of what real templates use.
"""

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

CHATML = """
{%- for m in messages %}
{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

CHATML_DEFAULT_SYSTEM = """{% if not messages or messages[0]['role'] != 'system' %}<|im_start|>system
You are a careful assistant.<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] | trim }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""

CHATML_TOOLS = """{#- Qwen-like: JSON tools in the system turn, tool results inside user turns -#}
{%- set ns = namespace(open=false) -%}
{%- if tools -%}
<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content ~ '\\n\\n' }}{% endif -%}
# Tools
<tools>
{% for tool in tools -%}
{{ tool | tojson }}
{% endfor -%}
</tools><|im_end|>
{% elif messages[0].role == 'system' -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- if not loop.first -%}{{ raise_exception('System message must be at the beginning.') }}{%- endif -%}
  {%- elif message.role == 'tool' -%}
    {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' -%}<|im_start|>user{%- endif -%}
    {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' -}}
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\\n' }}{%- endif -%}
  {%- elif message.role == 'assistant' -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if message.reasoning_content is defined and loop.index0 > 1 -%}
      {{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' -}}
    {%- endif -%}
    {{- message.content -}}
    {%- for call in message.tool_calls or [] -%}
      {%- if not loop.first or message.content -%}{{ '\\n' }}{%- endif -%}
      {{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' -}}
      {{- call.function.arguments | tojson -}}
      {{- '}\\n</tool_call>' -}}
    {%- endfor -%}
    {{- '<|im_end|>\\n' -}}
  {%- else -%}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
  {%- if enable_thinking is defined and enable_thinking is false -%}{{ '<think>\\n\\n</think>\\n\\n' }}{%- endif -%}
{%- endif -%}"""

# Walks over the arguments, as the Qwen-coder kind of template does.
XML_TOOLS = """{% for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% endif -%}
{% for call in message.tool_calls | default([], true) -%}
<tool_call>
<function={{ call.function.name }}>
{% for key, value in call.function.arguments | items -%}
<parameter={{ key }}>
{{ value if value is string else value | tojson }}
</parameter>
{% endfor -%}
</function>
</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

LLAMA3 = """{{- bos_token }}
{%- set date = strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and message.tool_calls is defined and message.tool_calls %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + '}<|eot_id|>' }}
    {%- elif message.role == 'tool' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {%- if loop.first and message.role == 'system' %}{{ 'Today: ' + date + '\\n\\n' }}{% endif %}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}
{% set turns = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}{% set turns = messages %}{% set system = false %}{% endif %}
{% for m in turns %}
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if loop.index0 == 0 and system %}
{% set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] %}
{% else %}{% set text = m['content'] %}{% endif %}
{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
{%- elif m['role'] == 'assistant' %}{{ ' ' + text.strip() + ' ' + eos_token }}
{%- endif %}
{% endfor %}"""

MISTRAL = """{{ bos_token }}
{%- if messages[0].role == "system" %}{% set system = messages[0].content %}{% set loop_messages = messages[1:] %}
{%- else %}{% set loop_messages = messages %}{% endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages if message.role in ["user", "assistant"] and not message.tool_calls %}
    {%- if (message.role == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("After the optional system message, roles must alternate") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{%- for message in loop_messages %}
    {%- if message.role == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, value in tool.function.items() if key != "return" %}
                    {{- '"' + key + '": ' + (value | tojson) }}{{ ", " if not loop.last }}
                {%- endfor %}
                {{- "}}" }}{{ ", " if not loop.last }}
            {%- endfor %}
            {{- "][/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system is defined %}{{ "[INST] " + system + "\\n\\n" + message.content + "[/INST]" }}
        {%- else %}{{ "[INST] " + message.content + "[/INST]" }}{% endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none and message.tool_calls %}
        {{- "[TOOL_CALLS] [" }}
        {%- for call in message.tool_calls %}
            {%- if call.id is not defined or call.id | length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {%- set out = call.function | tojson %}
            {{- out[:-1] + ', "id": "' + call.id + '"}' }}{{ ", " if not loop.last }}
        {%- endfor %}
        {{- "]" + eos_token }}
    {%- elif message.role == "assistant" %}{{ " " + message.content | trim + eos_token }}
    {%- elif message.role == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content | string + ', "call_id": "' }}
        {{- message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}{{ raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

# Text as a string or as parts; a leading system turn becomes part of the first user turn.
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\\n\\n' -%}{%- set rest = messages[1:] -%}
{%- else -%}{%- set first = '' -%}{%- set rest = messages -%}{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\\n' }}
    {{- first if loop.first else '' }}
    {%- if message['content'] is string -%}{{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}{{ raise_exception("Invalid content type") }}{%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"""

PHI3 = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] in ['user', 'system', 'assistant'] %}
{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

# Collects every system turn at the top, and takes arguments as JSON text only beside null content.
DEEPSEEK = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif -%}
{%- set ns = namespace(system='', first=true, tool=false) -%}
{%- for m in messages -%}{%- if m['role'] == 'system' -%}
{%- set ns.system = ns.system + ('' if ns.first else '\\n\\n') + m['content'] -%}{%- set ns.first = false -%}
{%- endif -%}{%- endfor -%}
{{ bos_token }}{{ ns.system }}
{%- for m in messages -%}
{%- if m['role'] == 'user' -%}{%- set ns.tool = false -%}{{ '<｜User｜>' + m['content'] }}
{%- elif m['role'] == 'assistant' and m['content'] is none -%}
{%- for call in m['tool_calls'] -%}
{{ '<｜Assistant｜><｜tool▁call▁begin｜>' + call['type'] + '<｜tool▁sep｜>' + call['function']['name'] + '\\n```json\\n'
+ call['function']['arguments'] + '\\n```<｜tool▁call▁end｜>' }}
{%- endfor -%}{{ '<｜end▁of▁sentence｜>' }}
{%- elif m['role'] == 'assistant' -%}
{{ ('' if ns.tool else '<｜Assistant｜>') + m['content'].split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}
{%- elif m['role'] == 'tool' -%}{%- set ns.tool = true -%}
{{ '<｜tool▁output▁begin｜>' + m['content'] + '<｜tool▁output▁end｜>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not ns.tool -%}{{ '<｜Assistant｜>' }}{%- endif -%}"""

VICUNA = """{% for m in messages %}{% if m.role == 'system' %}{{ m.content ~ ' ' }}
{%- elif m.role == 'user' %}{{ 'USER: ' ~ m.content ~ ' ' }}
{%- elif m.role == 'assistant' %}{{ 'ASSISTANT: ' ~ m.content ~ eos_token }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""

COMMAND = """{{ bos_token }}
{%- macro turn(role, text='') -%}
<|START_OF_TURN_TOKEN|><|{{ role | upper }}_TOKEN|>{{ text }}
{%- endmacro -%}
{%- for message in messages -%}
{%- if message.role not in ('user', 'assistant', 'system') %}{% continue %}{% endif -%}
{%- set name = {'assistant': 'chatbot'}.get(message.role, message.role) -%}
{{ turn(name, message.content.strip()) }}<|END_OF_TURN_TOKEN|>
{%- endfor -%}
{%- if add_generation_prompt %}{{ turn('chatbot') }}{% endif %}"""

GRANITE = """{%- for message in messages -%}
<|start_of_role|>{{ message['role'] }}<|end_of_role|>{{ message['content'] }}<|end_of_text|>
{% endfor -%}
{%- if documents %}{% for d in documents %}<|start_of_role|>document<|end_of_role|>{{ d.text }}{% endfor %}{% endif -%}
{%- if add_generation_prompt %}<|start_of_role|>assistant{{ ' ' ~ controls | tojson if controls }}<|end_of_role|>
{%- endif -%}"""

# Marks what the model wrote for training masks; drops text behind a break.
TULU = """{% for message in messages %}
{% if message['role'] == 'assistant' %}
{% generation %}
{% set text = message['content'] + eos_token %}
<|assistant|>
{{ text }}
{% endgeneration %}
{% else %}
<|{{ message['role'] }}|>
{{ message['content'] }}
{% endif %}
{% if loop.index > 50 %}{% break %}{% endif %}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}"""

GLM = """[gMASK]<sop>
{%- for item in messages -%}
{%- if item.tools -%}<|system|>
{{ item.tools | tojson(indent=4) }}{%- endif -%}
<|{{ item.role }}|>{{ item.get('metadata', '') }}
{{ item.content }}
{%- endfor -%}{% if add_generation_prompt %}<|assistant|>{% endif %}"""

# Takes text only as a list of parts.
PARTS_ONLY = """{% for message in messages %}<|{{ message.role }}|>
{%- for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}</s>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""

ALL: dict[str, str] = {
    "chatml": CHATML,
    "chatml_default_system": CHATML_DEFAULT_SYSTEM,
    "chatml_tools": CHATML_TOOLS,
    "xml_tools": XML_TOOLS,
    "llama3": LLAMA3,
    "llama2": LLAMA2,
    "mistral": MISTRAL,
    "gemma": GEMMA,
    "gemma3": GEMMA3,
    "phi3": PHI3,
    "zephyr": ZEPHYR,
    "deepseek": DEEPSEEK,
    "vicuna": VICUNA,
    "command": COMMAND,
    "granite": GRANITE,
    "tulu": TULU,
    "glm": GLM,
}
