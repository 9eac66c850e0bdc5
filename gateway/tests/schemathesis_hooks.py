"""What the OpenAPI document says of all requests in its introduction, told to schemathesis at each field of a body.

At each field in the document itself it would make the types of generated clients unions with null.
"""

from urllib.parse import urlsplit

import requests
import schemathesis

# a reader of a stream waits so long for its first line
FIRST_LINE_SECONDS = 1
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


# What watches does not end by itself, and the tool waits for the end of an answer.
whole = requests.Session.send


def as_begun(session, request, **kwargs):
    """Of a stream the first line alone; of all else, refusals of streams among it, the whole answer."""
    if not urlsplit(request.url).path.endswith(":watch"):
        return whole(session, request, **kwargs)
    response = whole(session, request, **{**kwargs, "stream": True})
    if response.status_code != 200:
        response.content  # noqa: B018, reads it
        return response
    response.raw.connection.sock.settimeout(FIRST_LINE_SECONDS)
    begun = b""
    try:
        for piece in response.iter_content(None):
            begun += piece
            if b"\n" in begun:
                break
    except requests.exceptions.RequestException:
        pass  # nothing came in time
    response._content, response._content_consumed = begun[: begun.rfind(b"\n") + 1], True
    response.close()
    return response


requests.Session.send = as_begun
