"""The OpenAPI document as the generator needs it: messages, enums and operations, with Python names."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# Names that annotations use: a field with one of them would hide it from the fields after it.
TAKEN = {"str", "int", "float", "bool", "bytes", "list", "dict", "datetime", "dataclass", "dataclasses", "Any", "Literal", "self"}
# Names that the SDK's own exceptions and helpers have.
NOT_MODELS = {"Error", "google.rpc.Status"}
# Parts that every resource has, by the conventions of the API: an empty one stands for an absent one.
STANDARD_PARTS = {"config", "status", "metadata"}
REFERENCE = "#/components/schemas/"
PARAMETERS = "#/components/parameters/"


@dataclass
class Field:
    """A field of a message, or a parameter of an operation."""

    wire: str
    name: str
    kind: str
    description: str
    required: bool


@dataclass
class Message:
    name: str
    description: str
    fields: list[Field]


@dataclass
class Enum:
    name: str
    description: str
    values: list[str]


@dataclass
class Operation:
    name: str
    verb: str
    path: str
    description: str
    keyed: bool
    stream: bool
    answer: str
    path_fields: list[Field] = field(default_factory=list)
    query_fields: list[Field] = field(default_factory=list)
    body_fields: list[Field] = field(default_factory=list)
    # the body is this one message instead of fields
    body_message: Field | None = None
    # field of the answer that holds the items of a page, and their kind
    items: tuple[str, str] | None = None


@dataclass
class Api:
    messages: dict[str, Message]
    enums: dict[str, Enum]
    operations: list[Operation]
    reasons: list[str]


def snake(name: str) -> str:
    """`SuggestDefragmentation` → `suggest_defragmentation`, `ListSSHKeys` → `list_ssh_keys`."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])", r"\1\3_\2\4", name)
    return re.sub(r"\W", "_", spaced).lower()


def method_name(operation_id: str) -> str:
    """`AllocationService_CreateAllocation` → `create_allocation`."""
    return snake(operation_id.split("_", 1)[-1])


def own(name: str) -> str:
    """The name as Python takes it."""
    plain = re.sub(r"\W", "_", name)
    return f"{plain}_" if keyword.iskeyword(plain) or plain in TAKEN else plain


def short_names(full: list[str], short: Any, long: Any) -> dict[str, str]:
    """The short name of each where it is the only one with it, else the long one."""
    counts = Counter(short(name) for name in full)
    return {name: short(name) if counts[short(name)] == 1 else long(name) for name in full}


class Reader:
    """Reads the document."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.schemas: Json = {k: v for k, v in document["components"]["schemas"].items() if k not in NOT_MODELS}
        self.names = short_names(
            list(self.schemas),
            lambda name: name.rsplit(".", 1)[-1],
            lambda name: "".join(part[:1].upper() + part[1:] for part in name.split(".")),
        )

    def read(self) -> Api:
        messages, enums = {}, {}
        for full, schema in sorted(self.schemas.items(), key=lambda item: self.names[item[0]]):
            name = self.names[full]
            if "enum" in schema:
                enums[name] = Enum(name, schema.get("description", ""), list(schema["enum"]))
            else:
                messages[name] = Message(name, schema.get("description", ""), self.fields(schema))
        operations = self.operations(messages)
        text: str = self.document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["details"]["description"]
        reasons = re.findall(r"`([A-Z][A-Z0-9_]+)`", text)
        return Api(messages, enums, operations, reasons)

    def fields(self, schema: Json) -> list[Field]:
        required = set(schema.get("required", []))
        return [self.field(wire, part, wire in required) for wire, part in schema.get("properties", {}).items()]

    def field(self, wire: str, schema: Json, required: bool) -> Field:
        kind = self.kind(schema)
        if schema.get("x-optional"):
            kind += "?"
        return Field(wire, own(wire), kind, schema.get("description", ""), required)

    def kind(self, schema: Json) -> str:
        """`str`, `int64`, a message's name, `[kind]`, `{kind}`; see `gpuaas._codec`."""
        if "$ref" in schema:
            full = schema["$ref"].removeprefix(REFERENCE)
            return "json" if full in NOT_MODELS else self.names[full]
        match schema.get("type"):
            case "array":
                return f"[{self.kind(schema['items'])}]"
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                return "{" + self.kind(schema["additionalProperties"]) + "}"
            case "string":
                formats = {"date-time": "time", "int64": "int64", "uint64": "int64", "byte": "bytes"}
                return formats.get(schema.get("format", ""), "str")
            case "integer":
                return "int"
            case "number":
                return "float"
            case "boolean":
                return "bool"
            case _:
                return "json"

    def operations(self, messages: dict[str, Message]) -> list[Operation]:
        found = [
            (operation["operationId"], verb.upper(), path, operation)
            for path, item in self.document["paths"].items()
            for verb, operation in item.items()
            if isinstance(operation, dict) and "operationId" in operation
        ]
        # of two with one name, the users' keeps it
        admins = {name for name, _, path, _ in found if "/admin/" in path}
        others = {method_name(name) for name, *_ in found if name not in admins}
        wanted = [(name, "admin_" * (name in admins and method_name(name) in others) + method_name(name)) for name, *_ in found]
        counts = Counter(short for _, short in wanted)
        names = {name: short if counts[short] == 1 else snake(name.replace("Service_", "_")) for name, short in wanted}
        read = [self.operation(names[name], verb, path, operation, messages) for name, verb, path, operation in found]
        return sorted(read, key=lambda operation: operation.name)

    def operation(self, name: str, verb: str, path: str, schema: Json, messages: dict[str, Message]) -> Operation:
        content = schema["responses"]["200"].get("content", {})
        stream = "application/x-ndjson" in content
        kind = "json"
        if stream:
            kind = self.kind(content["application/x-ndjson"]["schema"]["anyOf"][0])
        elif "application/json" in content:
            kind = self.kind(content["application/json"]["schema"])
        read = Operation(name, verb, path, schema.get("description") or schema.get("summary", ""), False, stream, kind)
        for parameter in schema.get("parameters", []):
            if parameter.get("$ref", "").endswith("/IdempotencyKey"):
                read.keyed = True
                continue
            if parameter.get("$ref", "").startswith(PARAMETERS):
                parameter = self.document["components"]["parameters"][parameter["$ref"].removeprefix(PARAMETERS)]
            if parameter.get("in") in ("path", "query"):
                described = {**parameter["schema"], "description": parameter.get("description", "")}
                part = self.field(parameter["name"], described, parameter.get("required", False))
                (read.path_fields if parameter["in"] == "path" else read.query_fields).append(part)
        body = schema.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if body and "$ref" in body:
            kind_of_body = self.kind(body)
            read.body_message = Field("", own(snake(kind_of_body)), kind_of_body, "", True)
        elif body:
            read.body_fields = self.fields(body)
        paged = any(part.wire == "page_token" for part in read.query_fields)
        answer = messages.get(kind)
        if paged and answer and any(part.wire == "next_page_token" for part in answer.fields):
            lists = [part for part in answer.fields if part.kind.startswith("[")]
            read.items = (lists[0].name, lists[0].kind[1:-1]) if lists else None
        keep_apart(read)
        return read


def keep_apart(operation: Operation) -> None:
    """One name for each argument: a field of the query or body that is called as an earlier one gets a prefix."""
    used = {"idempotency_key", "timeout"}
    groups = [("path", operation.path_fields), ("query", operation.query_fields), ("body", operation.body_fields)]
    if operation.body_message:
        groups.append(("body", [operation.body_message]))
    for prefix, parts in groups:
        for part in parts:
            if part.name in used:
                part.name = f"{prefix}_{part.name}"
            used.add(part.name)
