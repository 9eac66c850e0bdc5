"""What the OpenAPI document says of all requests in its introduction, told to schemathesis at each field of a body.

At each field in the document itself it would make the types of generated clients unions with null.
"""

import schemathesis

WIDE = {
    "int64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "uint64": {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
}


def as_taken(schema, required):
    """A field of a request: null is the same as leaving it out, and 64-bit integers may be numbers."""
    kinds = [schema]
    if schema.get("format") in WIDE:
        kinds.append(WIDE[schema["format"]])
    # what is required is refused when it is left out, and so when it is null
    if not required:
        kinds.append({"type": "null"})
    return {"anyOf": kinds} if len(kinds) > 1 else schema


def as_selected(parameter):
    """A text in a language of its own, which a text by chance is none of: half of them are empty, so that reads succeed, too."""
    if parameter.get("name") in ("filter", "order_by", "read_mask"):
        parameter["schema"] = {"anyOf": [{"const": ""}, parameter["schema"]]}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for parameter in raw_schema["components"]["parameters"].values():
        as_selected(parameter)
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                as_selected(parameter)
            for media in operation.get("requestBody", {}).get("content", {}).values():
                schema = media["schema"]
                required = schema.get("required", [])
                for name, field in schema.get("properties", {}).items():
                    schema["properties"][name] = as_taken(field, name in required)
