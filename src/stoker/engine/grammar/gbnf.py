def gbnf_to_lark(source: str) -> str:
    raise NotImplementedError
