"""Uses an API as Cloudflare's own library does, which checks every answer against the types it documents.

    python cloudflare_api.py URL ACCOUNT TUNNEL TOKEN ZONE POLICY

It makes, changes, lists and removes one of everything, and meets errors; TUNNEL, ZONE and POLICY are there before, and
so is a tag `theirs`; the first call to verify a token of the account is one too many. Prints one line of JSON for each call: { call, ok } or { call, ok: false, error }; for a call that
is to be refused, ok is whether it was, in a way that the library understands.
"""

import json
import sys

from cloudflare import APIStatusError, Cloudflare

url, account, tunnel, token, zone, policy = sys.argv[1:]
api = Cloudflare(base_url=url, api_token=token, max_retries=0, timeout=20, _strict_response_validation=True)
tunnels, access = api.zero_trust.tunnels.cloudflared, api.zero_trust.access
content = f"{tunnel}.cfargotunnel.com"


def step(call, act):
    """What the call gives, or None if it fails or its answer is not as documented."""
    result, line = None, {"call": call, "ok": True}
    try:
        result = act()
    except Exception as error:
        line = {"call": call, "ok": False, "error": f"{error!r} {error.__cause__!r}"}
    print(json.dumps(line), flush=True)
    return result


step("verify token", lambda: api.user.tokens.verify())
step("read tunnel", lambda: tunnels.get(tunnel, account_id=account))
rules = [
    {"hostname": "sdk.example.com", "service": "http://web:80", "origin_request": {"connect_timeout": 10}},
    {"hostname": "", "service": "http_status:404"},
]
step("write config", lambda: tunnels.configurations.update(tunnel, account_id=account, config={"ingress": rules}))
step("read config", lambda: tunnels.configurations.get(tunnel, account_id=account))
step("list zones", lambda: list(api.zones.list(account={"id": account}, per_page=5)))

record = {"zone_id": zone, "type": "CNAME", "name": "sdk.example.com", "content": content, "ttl": 1, "proxied": True}
made = step("create record", lambda: api.dns.records.create(**record, comment="ours"))
step("list records", lambda: list(api.dns.records.list(zone_id=zone, name={"exact": "sdk.example.com"}, per_page=1)))
if made:
    step("edit record", lambda: api.dns.records.edit(made.id, **record, comment="released"))
    step("replace record", lambda: api.dns.records.update(made.id, **record))
    step("delete record", lambda: api.dns.records.delete(made.id, zone_id=zone))

step("create tag", lambda: access.tags.create(account_id=account, name="sdk"))
step("list tags", lambda: list(access.tags.list(account_id=account)))
step("list policies", lambda: list(access.policies.list(account_id=account)))
step("read policy", lambda: access.policies.get(policy, account_id=account))
app = {"account_id": account, "type": "self_hosted", "domain": "sdk.example.com", "tags": ["sdk"]}
made = step("create app", lambda: access.applications.create(**app, policies=[{"id": policy, "precedence": 1}]))
step("list apps", lambda: list(access.applications.list(account_id=account, per_page=1)))
if made:
    step("read app", lambda: access.applications.get(made.id, account_id=account))
    step("replace app", lambda: access.applications.update(made.id, **app, policies=[policy]))
    step("delete app", lambda: access.applications.delete(made.id, account_id=account))


def refused(call, status, code, act):
    """The call is refused, with this code among the errors that the library has read."""
    line = {"call": call, "ok": False}
    try:
        line["error"] = f"{act()!r} and no error"
    except APIStatusError as error:
        codes = [one.code for one in error.errors]
        line = {"call": call, "ok": (error.status_code, codes) == (status, [code]), "error": f"{error!r} {codes}"}
    except Exception as error:
        line["error"] = repr(error)
    print(json.dumps(line), flush=True)


other = {**record, "content": "elsewhere.example"}
step("create record anew", lambda: api.dns.records.create(**record))
refused("create it twice", 400, 81058, lambda: api.dns.records.create(**record))
refused("create it not proxied", 400, 81057, lambda: api.dns.records.create(**{**record, "proxied": False}))
refused("create another for the name", 400, 81053, lambda: api.dns.records.create(**other))
refused(
    "create an address for the name",
    400,
    81054,
    lambda: api.dns.records.create(zone_id=zone, type="A", name="sdk.example.com", content="192.0.2.1", ttl=1),
)
refused("delete no record", 404, 81044, lambda: api.dns.records.delete("0" * 32, zone_id=zone))
refused("read another account", 403, 10000, lambda: tunnels.get(tunnel, account_id="0" * 32))
refused("read no tunnel", 404, 1003, lambda: tunnels.get(policy, account_id=account))
refused("read what is no id", 400, 7003, lambda: tunnels.get("x", account_id=account))
refused("create a tag twice", 409, 12130, lambda: access.tags.create(account_id=account, name="theirs"))
refused("read no app", 404, 12045, lambda: access.applications.get(tunnel, account_id=account))
bad = [{"hostname": "sdk.example.com", "service": "http://web:80"}]
refused(
    "write a bad config",
    400,
    1056,
    lambda: tunnels.configurations.update(tunnel, account_id=account, config={"ingress": bad}),
)
stranger = Cloudflare(base_url=url, api_token=token[::-1], max_retries=0, timeout=20)
refused("list zones without a right", 403, 9109, lambda: stranger.zones.list())
refused("verify an unknown token", 401, 1000, lambda: stranger.user.tokens.verify())
refused("verify too often", 429, 10429, lambda: api.accounts.tokens.verify(account_id=account))
refused("verify token of a user there", 401, 1000, lambda: api.accounts.tokens.verify(account_id=account))
