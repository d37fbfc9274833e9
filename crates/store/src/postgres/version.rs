//! Which servers this build works with: what an older one does is not known here.

use tokio_postgres::Client;

use super::PostgresError;

/// The oldest major version.
const LEAST: i32 = 15;

/// Makes sure that a server is none of them.
pub(super) async fn ensure_known(client: &Client) -> Result<(), PostgresError> {
    let asked = "SELECT current_setting('server_version_num')::int4";
    check(client.query_one(asked, &[]).await?.get(0))
}

/// Looks at a version as servers number them: 150004 is 15.4.
const fn check(number: i32) -> Result<(), PostgresError> {
    let found = number / 10_000;
    match found < LEAST {
        true => Err(PostgresError::OldServer {
            found,
            least: LEAST,
        }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-JRN-5
    #[test]
    fn a_server_that_is_too_old_is_refused() {
        for (number, found) in [(90_624, 9), (140_019, 14), (149_999, 14)] {
            let told = check(number).expect_err("it is too old").to_string();
            assert_eq!(
                told,
                format!("the server is PostgreSQL {found}, this build wants 15 or a newer one")
            );
        }
        for number in [150_000, 150_004, 170_002] {
            assert!(check(number).is_ok(), "{number}");
        }
    }
}
