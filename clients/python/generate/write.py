"""Python source from what was read of the OpenAPI document."""

from __future__ import annotations

import textwrap

from generate.schema import STANDARD_PARTS, Api, Enum, Field, Message, Operation

HEAD = '"""{}\n\nGenerated from docs/reference/openapi.json by `make sdk`; do not edit.\n"""\n\nfrom __future__ import annotations\n\n'
WIDTH = 116
PLAIN = {
    "str": "str",
    "int": "int",
    "int64": "int",
    "float": "float",
    "bool": "bool",
    "bytes": "bytes",
    "time": "datetime",
    "json": "dict[str, Any]",
}
DEFAULTS = {"str": '""', "int": "0", "int64": "0", "float": "0.0", "bool": "False", "bytes": 'b""', "time": "None"}


def text(description: str, indent: str) -> str:
    """A docstring."""
    clean = description.replace("\\", "\\\\").replace('"""', "'''").strip()
    clean = "".join(c for c in clean if c == "\n" or c.isprintable())
    if not clean:
        return ""
    lines = [part for line in clean.split("\n") for part in (textwrap.wrap(line, WIDTH - len(indent)) or [""])]
    end = " " if lines[-1].endswith('"') else ""
    if len(lines) == 1 and len(lines[0]) + 6 + len(indent) <= WIDTH:
        return f'{indent}"""{lines[0]}{end}"""\n'
    body = "\n".join(f"{indent}{line}".rstrip() for line in lines)
    return f'{indent}"""{body.lstrip()}\n{indent}"""\n'


def python_type(kind: str, prefix: str = "") -> str:
    """The annotation of a value of the kind."""
    kind = kind.removesuffix("?")
    if kind.startswith("["):
        return f"list[{python_type(kind[1:-1], prefix)}]"
    if kind.startswith("{"):
        return f"dict[str, {python_type(kind[1:-1], prefix)}]"
    return PLAIN.get(kind) or f"{prefix}{kind}"


def attribute(field: Field, api: Api) -> str:
    """The annotation and default of a dataclass' field."""
    kind, annotation = field.kind, python_type(field.kind)
    if kind.endswith("?") or kind == "time" or kind == "json":
        return f"{annotation} | None = None"
    if kind.startswith("["):
        return f"{annotation} = dataclasses.field(default_factory=list)"
    if kind.startswith("{"):
        return f"{annotation} = dataclasses.field(default_factory=dict)"
    if kind in DEFAULTS:
        return f"{annotation} = {DEFAULTS[kind]}"
    if kind in api.enums:
        return f'{annotation} = "{api.enums[kind].values[0]}"'
    if field.wire in STANDARD_PARTS:
        return f"{annotation} = dataclasses.field(default_factory=lambda: {annotation}())"
    return f"{annotation} | None = None"


def enum(read: Enum) -> str:
    values = ", ".join(f'"{value}"' for value in read.values)
    line = f"{read.name} = Literal[{values}]\n"
    if len(line) > WIDTH:
        line = f"{read.name} = Literal[\n" + "".join(f'    "{value}",\n' for value in read.values) + "]\n"
    return line + text(read.description, "")


def message(read: Message, api: Api) -> str:
    source = f"@dataclass(frozen=True, slots=True, kw_only=True)\nclass {read.name}:\n"
    source += text(read.description or f"{read.name}.", "    ")
    for field in read.fields:
        source += f"    {field.name}: {attribute(field, api)}\n{text(field.description, '    ')}"
    return source


def models(api: Api) -> str:
    """`models.py`."""
    names = sorted([*api.messages, *api.enums])
    source = HEAD.format("Messages and enums of the API. An enum may get new values: take one that you do not know as such.")
    source += "import dataclasses\nfrom dataclasses import dataclass\nfrom datetime import datetime\nfrom typing import Any, Literal\n\n"
    source += "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n\n"
    source += "\n".join(enum(read) for read in api.enums.values())
    source += "\n" + "\n\n".join("\n" + message(read, api) for read in api.messages.values()).lstrip("\n")
    return source.rstrip("\n") + "\n"


def shapes(api: Api) -> str:
    """`_shapes.py`: for each model, its fields by their names on the wire, with name in Python and kind."""
    source = HEAD.format("How each model is written as JSON: (name on the wire, name here, kind). See `_codec`.")
    source += "SHAPES: dict[str, tuple[tuple[str, str, str], ...]] = {\n"
    for read in api.messages.values():
        source += f'    "{read.name}": (\n'
        for field in read.fields:
            kind = field.kind
            for name in api.enums:
                if kind.strip("[]{}?") == name:
                    kind = kind.replace(name, "str")
            source += f'        ("{field.wire}", "{field.name}", "{kind}"),\n'
        source += "    ),\n"
    return source + "}\n"


def reasons(api: Api) -> str:
    """`reasons.py`."""
    source = HEAD.format("Reasons of errors, as `ApiError.reason` holds them. docs/reference/errors.md explains each.")
    source += "from typing import Final\n\n"
    return source + "".join(f'{reason}: Final = "{reason}"\n' for reason in api.reasons)


def table(api: Api) -> str:
    """`_table.py`: every operation as data."""
    source = HEAD.format("Every operation as data, for the synchronous and the asynchronous client.")
    source += "from typing import Any\n\nfrom gpuaas import models as m\nfrom gpuaas._operation import Operation\n\n"
    for operation in api.operations:
        answer = python_type(operation.answer, "m.")
        model = "dict" if operation.answer == "json" else answer
        flags = "".join(f", {flag}=True" for flag in ("keyed", "stream") if getattr(operation, flag))
        source += (
            f'{operation.name.upper()}: Operation[{answer}] = Operation(\n    "{operation.verb}", "{operation.path}", {model}{flags}\n)\n'
        )
    return source


def argument(field: Field, *, enums: dict[str, Enum]) -> str:
    annotation = python_type(field.kind, "m.")
    return f"{field.name}: {annotation}" if field.required else f"{field.name}: {annotation} | None = None"


def arguments(operation: Operation, api: Api, *, pages: bool) -> list[Field]:
    parts = [*operation.query_fields, *([operation.body_message] if operation.body_message else []), *operation.body_fields]
    parts = [part for part in parts if pages or part.wire != "page_token"]
    return sorted(parts, key=lambda part: not part.required)


def mapping(parts: list[Field]) -> str:
    return "{" + ", ".join(f'"{part.wire}": {part.name}' for part in parts) + "}"


def method(operation: Operation, api: Api, *, asynchronous: bool, pages: bool) -> str:
    """One method; with `pages` false the iterator over all pages."""
    parts = arguments(operation, api, pages=pages)
    name = operation.name if pages else f"iter_{operation.name.replace('list_', '', 1)}"
    signature = ["self", *(argument(part, enums=api.enums) for part in operation.path_fields)]
    named = [argument(part, enums=api.enums) for part in parts]
    if operation.keyed:
        named.append("idempotency_key: str | None = None")
    named.append("timeout: float | None = None")
    signature += ["*", *named]
    answer = python_type(operation.answer, "m.")
    iterator = "AsyncIterator" if asynchronous else "Iterator"
    define, wait = ("async def", "await ") if asynchronous else ("def", "")
    if not pages and operation.items:
        answer = f"{iterator}[{python_type(operation.items[1], 'm.')}]"
    elif operation.stream:
        answer = f"{iterator}[{answer}]"
    lazy = operation.stream or not pages
    if lazy:
        define, wait = "def", ""
    source = f"    {define} {name}(\n        " + ",\n        ".join(signature) + f",\n    ) -> {answer}:\n"
    description = operation.description
    if not pages:
        description = f"The items of all pages of `{operation.name}`."
    lines = [f"{part.name}: {part.description}" for part in [*operation.path_fields, *parts] if part.description]
    if lines:
        description += "\n\n" + "\n".join(lines)
    source += text(description, "        ")
    path, query = mapping(operation.path_fields), mapping([p for p in operation.query_fields if pages or p.wire != "page_token"])
    body = operation.body_message.name if operation.body_message else mapping(operation.body_fields) if operation.verb != "GET" else "None"
    table_name = f"t.{operation.name.upper()}"
    if not pages and operation.items:
        return source + f'        return self._pages({table_name}, {path}, {query}, "{operation.items[0]}", timeout)\n'
    if operation.stream:
        return source + f"        return self._watch({table_name}, {path}, {query}, timeout)\n"
    key = "idempotency_key" if operation.keyed else "None"
    return source + f"        return {wait}self._call({table_name}, {path}, {query}, {body}, {key}, timeout)\n"


def operations(api: Api, *, asynchronous: bool) -> str:
    """`_operations.py` or `_async_operations.py`."""
    kind, base = ("asynchronous", "AsyncCaller") if asynchronous else ("synchronous", "Caller")
    iterator = "AsyncIterator" if asynchronous else "Iterator"
    source = HEAD.format(f"One method per operation of the API, {kind}.")
    source += f"from collections.abc import {iterator}\nfrom datetime import datetime\nfrom typing import Any\n\n"
    source += f"from gpuaas import _table as t\nfrom gpuaas import models as m\nfrom gpuaas._operation import {base}\n\n\n"
    name = "AsyncOperations" if asynchronous else "Operations"
    source += f'class {name}({base}):\n    """The operations. Every argument that is `None` is not sent."""\n'
    for operation in api.operations:
        source += "\n" + method(operation, api, asynchronous=asynchronous, pages=True)
        if operation.items:
            source += "\n" + method(operation, api, asynchronous=asynchronous, pages=False)
    return source


def files(api: Api) -> dict[str, str]:
    """All generated files by name."""
    return {
        "models.py": models(api),
        "reasons.py": reasons(api),
        "_shapes.py": shapes(api),
        "_table.py": table(api),
        "_operations.py": operations(api, asynchronous=False),
        "_async_operations.py": operations(api, asynchronous=True),
    }
