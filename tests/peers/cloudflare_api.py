"""Uses an API as Cloudflare's own library does, which checks every answer against the types it documents.

    python cloudflare_api.py URL ACCOUNT TUNNEL TOKEN ZONE POLICY

It makes, changes, lists and removes one of everything; TUNNEL, ZONE and POLICY are there before. Prints one line of
JSON for each call: { call, ok } or { call, ok: false, error }.
"""

import json
import sys

from cloudflare import Cloudflare

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
