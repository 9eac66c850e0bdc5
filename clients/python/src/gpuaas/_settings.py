"""Where the API is and which token is used: arguments, then environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import httpx

from gpuaas.errors import UsageError

TokenSource = Callable[[], str]
_MOST_TOKEN_BYTES = 64 * 1024
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def base_url(given: str | None, environment: Mapping[str, str] = os.environ) -> httpx.URL:
    """The address of the API: the argument, else `GPUAAS_API`. Plain HTTP is for this machine only: a token is sent."""
    text = given or environment.get("GPUAAS_API", "")
    if not text:
        raise UsageError("no API address is set; pass base_url or set GPUAAS_API")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        raise UsageError("the API address is not a URL") from None
    if url.scheme not in ("https", "http") or not url.host:
        raise UsageError("the API address must start with https://")
    if url.userinfo or url.query or url.fragment:
        raise UsageError("the API address must have no user, query or fragment")
    if url.scheme == "http" and url.host not in _LOOPBACK:
        raise UsageError("the API address must start with https:// because a token is sent; http:// is for this machine only")
    return url.copy_with(path=url.path.rstrip("/") + "/")


def token_source(
    token: str | TokenSource | None, token_file: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ
) -> TokenSource | None:
    """Where tokens come from: the argument, else `GPUAAS_TOKEN`, else `GPUAAS_TOKEN_FILE`; a file is read for every call."""
    if token is not None and token_file is not None:
        raise UsageError("pass token or token_file, not both")
    if token is None and token_file is None:
        token = environment.get("GPUAAS_TOKEN") or None
        token_file = None if token else environment.get("GPUAAS_TOKEN_FILE") or None
    if callable(token):
        return token
    if token is not None:
        fixed = checked(token)
        return lambda: fixed
    if token_file is not None:
        path = Path(token_file)
        return lambda: _read(path)
    return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the token file {path} cannot be read: {error.strerror}") from None
    return checked(data.decode("latin-1"))


def checked(token: str) -> str:
    """The token as a header takes it. A message never shows it."""
    stripped = token.strip()
    if len(stripped) > _MOST_TOKEN_BYTES or not re.fullmatch(r"[!-~]+", stripped):
        raise UsageError("the token is empty, too long, or has characters that a token does not have")
    return stripped


class Bearer(httpx.Auth):
    """Puts the token on a request at the last moment, so that nothing else holds it."""

    def __init__(self, source: TokenSource | None) -> None:
        self._source = source

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._source is not None:
            request.headers["Authorization"] = f"Bearer {checked(self._source())}"
        yield request

    def __repr__(self) -> str:
        return "Bearer(***)"
