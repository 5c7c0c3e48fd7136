//! The calls of the API that the fake knows.

use crate::http::Request;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    VerifyUserToken,
    VerifyAccountToken,
    ReadTunnel,
    ReadConfig,
    WriteConfig,
    ListZones,
    ListRecords,
    CreateRecord,
    EditRecord,
    ReplaceRecord,
    DeleteRecord,
    ListApps,
    CreateApp,
    ReadApp,
    ReplaceApp,
    DeleteApp,
    ListTags,
    CreateTag,
    ListPolicies,
    ReadPolicy,
}

const TEMPLATES: [(Call, &str); 20] = [
    (Call::VerifyUserToken, "GET /user/tokens/verify"),
    (Call::VerifyAccountToken, "GET /accounts/{account_id}/tokens/verify"),
    (Call::ReadTunnel, "GET /accounts/{account_id}/cfd_tunnel/{tunnel_id}"),
    (Call::ReadConfig, "GET /accounts/{account_id}/cfd_tunnel/{tunnel_id}/configurations"),
    (Call::WriteConfig, "PUT /accounts/{account_id}/cfd_tunnel/{tunnel_id}/configurations"),
    (Call::ListZones, "GET /zones"),
    (Call::ListRecords, "GET /zones/{zone_id}/dns_records"),
    (Call::CreateRecord, "POST /zones/{zone_id}/dns_records"),
    (Call::EditRecord, "PATCH /zones/{zone_id}/dns_records/{record_id}"),
    (Call::ReplaceRecord, "PUT /zones/{zone_id}/dns_records/{record_id}"),
    (Call::DeleteRecord, "DELETE /zones/{zone_id}/dns_records/{record_id}"),
    (Call::ListApps, "GET /accounts/{account_id}/access/apps"),
    (Call::CreateApp, "POST /accounts/{account_id}/access/apps"),
    (Call::ReadApp, "GET /accounts/{account_id}/access/apps/{app_id}"),
    (Call::ReplaceApp, "PUT /accounts/{account_id}/access/apps/{app_id}"),
    (Call::DeleteApp, "DELETE /accounts/{account_id}/access/apps/{app_id}"),
    (Call::ListTags, "GET /accounts/{account_id}/access/tags"),
    (Call::CreateTag, "POST /accounts/{account_id}/access/tags"),
    (Call::ListPolicies, "GET /accounts/{account_id}/access/policies"),
    (Call::ReadPolicy, "GET /accounts/{account_id}/access/policies/{policy_id}"),
];

/// What the braces of a template stood for.
pub(super) type PathParams = Vec<(&'static str, String)>;

impl Call {
    pub(super) fn all() -> impl Iterator<Item = (Self, &'static str)> {
        TEMPLATES.into_iter()
    }

    pub(super) fn of(request: &Request) -> Option<(Self, PathParams)> {
        let path = request.path.strip_prefix(super::BASE_PATH)?;
        let call = format!("{} {path}", request.method);
        Self::all().find_map(|(known, template)| Some((known, fit(template, &call)?)))
    }

    /// Whether it may change something.
    pub fn writes(self) -> bool {
        !Self::all().any(|(call, template)| call == self && template.starts_with("GET "))
    }
}

fn fit(template: &'static str, call: &str) -> Option<PathParams> {
    let (template, call): (Vec<_>, Vec<_>) = (template.split('/').collect(), call.split('/').collect());
    if template.len() != call.len() {
        return None;
    }
    let mut params = PathParams::new();
    for (part, word) in template.into_iter().zip(call) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => params.push((name, word.to_owned())),
            None if part == word => {}
            None => return None,
        }
    }
    Some(params)
}
