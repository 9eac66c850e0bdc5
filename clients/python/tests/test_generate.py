"""The generator: names that Python cannot take, names that meet, and texts of any kind."""

from __future__ import annotations

import ast
import json
from typing import Any

from generate.__main__ import DOCUMENT
from generate.schema import Reader, snake
from generate.write import files
from gpuaas import _codec as codec
from gpuaas import models
from gpuaas._shapes import SHAPES


def document(schemas: dict[str, Any], paths: dict[str, Any] | None = None) -> dict[str, Any]:
    reasons = {"description": "Reasons: `QUOTA`, `INTERNAL`."}
    error = {"properties": {"error": {"properties": {"details": reasons}}}}
    return {"components": {"schemas": {"Error": error, **schemas}}, "paths": paths or {}}


def operation(name: str, **parts: Any) -> dict[str, Any]:
    ok = {"content": {"application/json": {"schema": {"type": "object", "properties": {}}}}}
    return {"operationId": name, "description": "Does it.", "responses": {"200": ok}, **parts}


def test_names_are_written_as_python_writes_them() -> None:
    got = [snake(name) for name in ("CreateAllocation", "ListSSHKeys", "GetIPv4", "SuggestDefragmentation")]
    assert got == ["create_allocation", "list_ssh_keys", "get_ipv4", "suggest_defragmentation"]


def test_any_name_and_text_becomes_valid_python() -> None:
    field = {"type": "string", "description": 'Says """x""" and \\ and "'}
    names = ("from", "class", "str", "list", "self", "a.b", "timeout", "idempotency_key")
    schema = {"type": "object", "description": '"', "properties": {name: field for name in names}}
    parameters = [
        {"name": "timeout", "in": "query", "schema": {"type": "string"}},
        {"name": "id", "in": "path", "schema": {"type": "string"}},
    ]
    body = {"content": {"application/json": {"schema": {"type": "object", "required": ["from"], "properties": schema["properties"]}}}}
    paths = {
        "/a/{id}": {"post": operation("OneService_Do", parameters=parameters, requestBody=body)},
        "/b": {"get": operation("TwoService_Do")},
        "/c": {"get": operation("ThingService_ListThings")},
        "/admin/c": {"get": operation("ThingAdminService_ListThings")},
    }
    api = Reader(document({"a.Thing": schema, "b.Thing": schema, "b.Only": schema}, paths)).read()
    assert sorted(api.messages) == ["AThing", "BThing", "Only"]
    assert [found.name for found in api.operations] == ["admin_list_things", "list_things", "one_do", "two_do"]
    for source in files(api).values():
        ast.parse(source)


def test_every_model_reads_what_it_writes() -> None:
    """Each field of each model, filled, survives the way to JSON and back; empty ones are not sent."""

    def value(kind: str, depth: int = 0) -> Any:
        kind = kind.removesuffix("?")
        if kind.startswith("["):
            return [value(kind[1:-1], depth)]
        if kind.startswith("{"):
            return {"k": value(kind[1:-1], depth)}
        plain: dict[str, Any] = {"str": "s", "int": 1, "int64": "2", "float": 1.5, "bool": True, "bytes": "AQ==", "json": {"a": 1}}
        if kind in plain:
            return plain[kind]
        if kind == "time":
            return "2026-01-02T03:04:05.250000Z"
        return {} if depth > 3 else {wire: value(part, depth + 1) for wire, _, part in SHAPES[kind]}

    for name in SHAPES:
        model = getattr(models, name)
        filled = codec.decode(value(name), model)
        assert codec.decode(codec.encode(filled), model) == filled
        assert codec.encode(model()) == {}


def test_the_sdk_has_every_operation_of_the_document() -> None:
    from gpuaas import AsyncClient, Client

    for item in json.loads(DOCUMENT.read_text())["paths"].values():
        for found in item.values():
            name = snake(found["operationId"].split("_", 1)[1])
            assert callable(getattr(Client, name)) and callable(getattr(AsyncClient, name))


def test_absent_is_told_from_zero() -> None:
    """A field that the contract marks as optional is `None` when it is unset, and is sent when it is zero."""
    assert codec.decode({}, models.NumaNode) == models.NumaNode()
    optional = [(name, own) for name, shape in SHAPES.items() for _, own, kind in shape if kind == "int?"]
    assert optional
    for name, own in optional:
        model = getattr(models, name)
        assert getattr(model(), own) is None
        assert codec.encode(model(**{own: 0})) != {}
