//! The credential of an HTTP request: a token or the admin key.

use crate::error_code::{ErrorCode, GatewayError};

/// Returns the credential of a request: that of the field `Authorization` if there is one, otherwise the one of the query
/// (`?token=…`). The field has the form `Bearer …`; the name of the scheme is not case-sensitive.
///
/// # Errors
/// The field has another form. The query does not count then: a client that sends a credential means it.
pub fn credential_of<'a>(
    authorization: Option<&'a str>,
    query_token: Option<&'a str>,
) -> Result<Option<&'a str>, GatewayError> {
    let Some(field) = authorization else {
        return Ok(query_token.filter(|token| !token.is_empty()));
    };
    let bearer =
        field.trim().split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    match bearer.map(|(_, credential)| credential.trim()) {
        Some(credential) if !credential.is_empty() => Ok(Some(credential)),
        _ => Err(GatewayError::new(
            ErrorCode::TokenInvalid,
            "the field Authorization must be `Bearer` and a token",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g03_the_field_counts_before_the_query() {
        let of = [
            (None, None, Ok(None)),
            (None, Some(""), Ok(None)),
            (None, Some("q"), Ok(Some("q"))),
            (Some("Bearer t"), Some("q"), Ok(Some("t"))),
            (Some("bearer  t "), None, Ok(Some("t"))),
            (Some("BEARER t"), None, Ok(Some("t"))),
            (Some("Basic dTpw"), Some("q"), Err(ErrorCode::TokenInvalid)),
            (Some("Bearer"), Some("q"), Err(ErrorCode::TokenInvalid)),
            (Some("Bearer "), None, Err(ErrorCode::TokenInvalid)),
            (Some(""), None, Err(ErrorCode::TokenInvalid)),
            (Some("Bearert"), None, Err(ErrorCode::TokenInvalid)),
        ];
        for (field, query, expected) in of {
            let credential = credential_of(field, query).map_err(|error| error.code);
            assert_eq!(credential, expected, "{field:?} {query:?}");
        }
    }
}
