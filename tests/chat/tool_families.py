# ruff: noqa: E501 - line breaks are text in a template
"""Chat templates of families that write tool calls, in their wire formats; written for these tests."""

_CHATML_HEAD = """{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}{% for tool in tools %}{{ tool | tojson ~ '\\n' }}{% endfor %}{{- '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}{{- '<|im_start|>' ~ m.role ~ '\\n' }}
{%- if m.reasoning_content %}{{- '<think>\\n' ~ m.reasoning_content ~ '\\n</think>\\n\\n' }}{% endif %}
{{- m.content or '' }}
{%- for call in m.tool_calls or [] %}{% set f = call.function %}"""
_CHATML_FOOT = """{%- endfor %}{{- '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN35 = (
    _CHATML_HEAD
    + """{{- '\\n<tool_call>\\n<function=' ~ f.name ~ '>\\n' }}{% for k, v in f.arguments | items %}
{{- '<parameter=' ~ k ~ '>\\n' ~ (v if v is string else v | tojson) ~ '\\n</parameter>\\n' }}{% endfor %}
{{- '</function>\\n</tool_call>' }}"""
    + _CHATML_FOOT
    + "{%- if add_generation_prompt %}{{- '<think>\\n' }}{% endif %}"
)

MINICPM = (
    _CHATML_HEAD
    + """{{- '\\n<function name="' ~ f.name ~ '">' }}{% for k, v in f.arguments.items() %}{{- '<param name="' ~ k ~ '">' }}
{%- if v is string and ('<' in v or '&' in v or '\\n' in v) %}{{- '<![CDATA[' ~ v ~ ']]>' }}{% elif v is string %}{{ v }}{% else %}{{ v | tojson }}{% endif %}
{{- '</param>' }}{% endfor %}{{- '</function>' }}"""
    + _CHATML_FOOT
)

SEED = (
    _CHATML_HEAD.replace("<think>", "<seed:think>").replace("</think>", "</seed:think>")
    + """{{- '\\n<seed:tool_call>\\n<function=' ~ f.name ~ '>\\n' }}{% for k, v in f.arguments | items %}
{{- '<parameter=' ~ k ~ '>' ~ (v if v is string else v | tojson) ~ '</parameter>\\n' }}{% endfor %}
{{- '</function>\\n</seed:tool_call>' }}"""
    + _CHATML_FOOT
)

PHI4 = """{%- for m in messages %}{{- '<|' ~ m.role ~ '|>' ~ (m.content or '') }}
{%- if loop.first and tools %}{{- '<|tool|>' ~ tools | tojson ~ '<|/tool|>' }}{% endif %}
{%- if m.tool_calls %}{{- '<|tool_call|>[' }}{% for call in m.tool_calls %}
{{- '{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) ~ '}' }}{{ ', ' if not loop.last }}
{%- endfor %}{{- ']<|/tool_call|>' }}{% endif %}{{- '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}"""

GLM45 = """[gMASK]<sop>{%- if tools %}{{- '<|system|>\\n<tools>\\n' }}{% for tool in tools %}{{ tool | tojson(ensure_ascii=False) ~ '\\n' }}{% endfor %}</tools>{% endif %}
{%- for m in messages %}{%- if m.role == 'assistant' %}{{- '<|assistant|>' }}
{%- if m.reasoning_content is string %}{{- '\\n<think>' ~ m.reasoning_content.strip() ~ '</think>' }}{% endif %}
{%- if m.content and m.content.strip() %}{{- '\\n' ~ m.content.strip() }}{% endif %}
{%- for call in m.tool_calls or [] %}{{- '\\n<tool_call>' ~ call.function.name }}
{%- for k, v in call.function.arguments.items() %}{{- '\\n<arg_key>' ~ k ~ '</arg_key>\\n<arg_value>' ~ (v if v is string else v | tojson(ensure_ascii=False)) ~ '</arg_value>' }}{% endfor %}
{{- '\\n</tool_call>' }}{% endfor %}
{%- elif m.role == 'tool' %}{{- '<|observation|>\\n<tool_response>\\n' ~ m.content ~ '\\n</tool_response>' }}
{%- else %}{{- '<|' ~ m.role ~ '|>\\n' ~ m.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}"""

MISTRAL_ARGS = """{{ bos_token }}{%- for m in messages %}
{%- if m.role == 'system' %}{{- '[SYSTEM_PROMPT]' ~ m.content ~ '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' %}{%- if loop.first and tools %}{{- '[AVAILABLE_TOOLS]' ~ tools | tojson ~ '[/AVAILABLE_TOOLS]' }}{% endif %}{{- '[INST]' ~ m.content ~ '[/INST]' }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]' ~ m.content ~ '[/TOOL_RESULTS]' }}
{%- else %}{{- m.content or '' }}{% for call in m.tool_calls or [] %}{{- '[TOOL_CALLS]' ~ call.function.name ~ '[ARGS]' }}
{%- set a = call.function.arguments %}{{- a if a is string else a | tojson }}{% endfor %}{{- eos_token }}{% endif %}{% endfor %}"""

GEMMA4 = """{%- macro value(v) -%}{%- if v is string -%}{{ '<|"|>' ~ v ~ '<|"|>' }}{%- elif v is boolean -%}{{ 'true' if v else 'false' }}
{%- elif v is none -%}null{%- elif v is mapping -%}{{ '{' }}{% for k, x in v | dictsort %}{{ k ~ ':' ~ value(x) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}
{%- elif v is sequence -%}[{% for x in v %}{{ value(x) }}{{ ',' if not loop.last }}{% endfor %}]{%- else -%}{{ v }}{%- endif -%}{%- endmacro -%}
{{ bos_token }}{%- if tools %}{{- '<|turn>system\\n' }}{% for tool in tools %}{{- '<|tool>declaration:' ~ tool.function.name ~ '{}<tool|>' }}{% endfor %}{{- '<turn|>\\n' }}{% endif %}
{%- for m in messages %}{%- if m.role == 'tool' %}{{- '<|tool_response>' ~ value(m.content) ~ '<tool_response|>' }}{% else %}
{{- '<|turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' }}
{%- if m.reasoning_content and m.tool_calls %}{{- '<|channel>thought\\n' ~ m.reasoning_content ~ '\\n<channel|>' }}{% endif %}
{%- for call in m.tool_calls or [] %}{{- '<|tool_call>call:' ~ call.function.name ~ '{' }}
{%- for k, v in call.function.arguments | dictsort %}{{- k ~ ':' ~ value(v) }}{{ ',' if not loop.last }}{% endfor %}{{- '}<tool_call|>' }}{% endfor %}
{{- m.content or '' }}{{- '<turn|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|turn>model\\n' }}{% endif %}"""

DEEPSEEK31 = """{{ bos_token }}{%- for m in messages %}{%- if m.role == 'system' %}{{- m.content }}
{%- elif m.role == 'user' %}{{- '<｜User｜>' ~ m.content }}{%- elif m.role == 'tool' %}{{- '<｜tool▁output▁begin｜>' ~ m.content ~ '<｜tool▁output▁end｜>' }}
{%- else %}{{- '<｜Assistant｜></think>' ~ (m.content or '') }}{%- if m.tool_calls %}{{- '<｜tool▁calls▁begin｜>' }}
{%- for call in m.tool_calls %}{{- '<｜tool▁call▁begin｜>' ~ call.function.name ~ '<｜tool▁sep｜>' ~ (call.function.arguments | tojson) ~ '<｜tool▁call▁end｜>' }}{% endfor %}
{{- '<｜tool▁calls▁end｜>' }}{% endif %}{{- '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<｜Assistant｜></think>' }}{% endif %}"""

KIMI = """{%- if tools %}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson }}<|im_end|>{% endif %}
{%- for m in messages %}{{- '<|im_' ~ m.role ~ '|>' ~ m.role ~ '<|im_middle|>' ~ (m.content or '') }}
{%- if m.tool_calls %}{{- '<|tool_calls_section_begin|>' }}{% for call in m.tool_calls %}
{{- '<|tool_call_begin|>functions.' ~ call.function.name ~ ':' ~ loop.index0 ~ '<|tool_call_argument_begin|>' ~ (call.function.arguments | tojson) ~ '<|tool_call_end|>' }}
{%- endfor %}{{- '<|tool_calls_section_end|>' }}{% endif %}{{- '<|im_end|>' }}{% endfor %}
{%- if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"""

HARMONY = """{%- if tools %}{{- '<|start|>developer<|message|># Tools\\n' }}{% for tool in tools %}{{ 'type ' ~ tool.function.name ~ ' = (_: any) => any;\\n' }}{% endfor %}{{- '<|end|>' }}{% endif %}
{%- set ns = namespace(name='') %}{%- for m in messages %}{%- if m.role == 'assistant' %}
{%- if m.thinking %}{{- '<|start|>assistant<|channel|>analysis<|message|>' ~ m.thinking ~ '<|end|>' }}{% endif %}
{%- if m.tool_calls %}{%- set f = m.tool_calls[0].function %}{%- set ns.name = f.name %}
{{- '<|start|>assistant to=functions.' ~ f.name ~ '<|channel|>commentary json<|message|>' ~ (f.arguments | tojson) ~ '<|call|>' }}
{%- else %}{{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}
{%- elif m.role == 'tool' %}{{- '<|start|>functions.' ~ ns.name ~ ' to=assistant<|channel|>commentary<|message|>' ~ m.content | tojson ~ '<|end|>' }}
{%- else %}{{- '<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"""

MINIMAX = """{%- if tools %}]~b]system\\n{% for tool in tools %}{{ '<tool>' ~ tool.function | tojson ~ '</tool>\\n' }}{% endfor %}[e~[{% endif %}
{%- for m in messages %}{{- ']~b]' ~ m.role ~ '\\n' ~ (m.content or '') }}
{%- if m.tool_calls %}{{- '\\n<minimax:tool_call>\\n' }}{% for call in m.tool_calls %}{{- '<invoke name="' ~ call.function.name ~ '">\\n' }}
{%- for k, v in call.function.arguments.items() %}{{- '<parameter name="' ~ k ~ '">' ~ (v if v is string else v | tojson) ~ '</parameter>\\n' }}{% endfor %}
{{- '</invoke>\\n' }}{% endfor %}{{- '</minimax:tool_call>' }}{% endif %}{{- '[e~[\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- ']~b]assistant\\n' }}{% endif %}"""

ALL: dict[str, str] = {
    "qwen35": QWEN35,
    "minicpm": MINICPM,
    "seed": SEED,
    "phi4": PHI4,
    "glm45": GLM45,
    "mistral_args": MISTRAL_ARGS,
    "gemma4": GEMMA4,
    "deepseek31": DEEPSEEK31,
    "kimi": KIMI,
    "harmony": HARMONY,
    "minimax": MINIMAX,
}
