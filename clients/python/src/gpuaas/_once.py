"""Secrets that the API shows in one answer and never again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuaas._operation import Operation, Request
from gpuaas.errors import SecretLostError, plain


@dataclass(frozen=True)
class Once:
    """What an operation shows once."""

    # field of the answer
    field: str
    # what was made
    made: str
    # field of its id; empty where the id is of no use
    named_by: str
    advice: str


_ROTATE_KEY = "rotate it, or disable it and create another one"
_ROTATE_SECRET = "rotate the secret"
_INVITE = "revoke it and invite again"

# By verb and path.
ONCE: dict[tuple[str, str], Once] = {
    ("POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys"): Once("key", "API key", "id", _ROTATE_KEY),
    ("POST", "/api/v1/projects/{project_id}/service-accounts/{service_account_id}/api-keys/{api_key_id}:rotate"): Once(
        "key", "API key", "id", _ROTATE_KEY
    ),
    ("POST", "/api/v1/projects/{project_id}/webhooks"): Once("secret", "webhook", "id", _ROTATE_SECRET),
    ("POST", "/api/v1/organisations/{organisation_id}/webhooks"): Once("secret", "webhook", "id", _ROTATE_SECRET),
    ("POST", "/api/v1/webhooks/{webhook_id}:rotateSecret"): Once("secret", "webhook", "id", "rotate the secret once more"),
    ("POST", "/api/v1/projects/{project_id}/invitations"): Once("token", "invitation", "id", _INVITE),
    ("POST", "/api/v1/organisations/{organisation_id}/invitations"): Once("token", "invitation", "id", _INVITE),
    ("POST", "/api/v1/admin/nodes/{node_id}/enrolment-tokens"): Once(
        "token", "enrolment token", "", "create another one, which replaces it"
    ),
    ("POST", "/api/v1/allocations/{allocation_id}/terminal-sessions"): Once("ticket", "ticket of a terminal", "", "ask for another one"),
}


def check(operation: Operation[Any], request: Request, answer: object) -> None:
    """Fails when the answer lacks what an earlier attempt at the call has shown."""
    once = ONCE.get((operation.verb, operation.path))
    if once is None or getattr(answer, once.field):
        return
    name = f" {plain(getattr(answer, once.named_by))}" if once.named_by else ""
    told = f"the {once.made}{name} was made by an earlier attempt with this idempotency key, and its {once.field} is not shown again"
    raise SecretLostError(f"{told}: {once.advice}", answer, request.key)
