//! TLS between a node and PostgreSQL: who is verified, and who is not let to pass for another.

use chancery_testkit::postgres_server::PostgresServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::on_postgres::is_whole;
use crate::served::{HOSTED, share};
use crate::support::Place;

/// An authority, and a server with its certificate for a name.
fn certified(name: &str) -> (String, PostgresServer) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own_name = format!("the authority of {name}");
    authority
        .distinguished_name
        .push(DnType::CommonName, own_name);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let server = PostgresServer::with_certificate(&certificate.pem(), &key.serialize_pem());
    (authority.pem(), server)
}

/// A place whose address asks for TLS in some way.
fn place(server: &PostgresServer, parameters: &str) -> Place {
    let url = format!("{}?{parameters}", server.url());
    Place::for_dev_node()
        .on(server, "secured")
        .with("CHANCERY_STORE", &url)
}

/// How many connections of nodes there are that have TLS, and that have none.
fn connections(server: &PostgresServer) -> [usize; 2] {
    ["", "NOT "].map(|not| {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'chancery' AND {not}ssl"
        );
        server.answer(&sql).parse().unwrap()
    })
}

#[test]
fn a_server_is_verified_and_every_connection_is_secured() {
    // CH-JRN-5, CH-ID-3
    let (authority, server) = certified("127.0.0.1");
    let place = place(&server, "sslmode=verify-full&sslrootcert=roots.pem");
    place.write("roots.pem", &authority);
    let node = place.serve();
    node.wire().share(&share(HOSTED[0]).bytes).unwrap().ok();
    let [secured, plain] = connections(&server);
    assert!(secured > 0);
    assert_eq!(plain, 0);
    node.stop_well();
    is_whole(&place);
    // Somebody else's certificate, and one for another name.
    let (strange, elsewhere) = certified("elsewhere.test");
    place.write("roots.pem", &strange);
    let told = place.refuses_to_serve(&[]).exits(2);
    assert!(told.err.contains("UnknownIssuer"), "{}", told.err);
    let named = self::place(&elsewhere, "sslmode=verify-full&sslrootcert=roots.pem");
    named.write("roots.pem", &strange);
    let told = named.refuses_to_serve(&[]).exits(2);
    assert!(told.err.contains("not valid for name"), "{}", told.err);
}

#[test]
fn require_asks_for_secrecy_and_for_no_proof() {
    let (_, server) = certified("elsewhere.test");
    let secret = place(&server, "sslmode=require");
    let node = secret.serve();
    node.wire().share(&share(HOSTED[0]).bytes).unwrap().ok();
    let [secured, plain] = connections(&server);
    assert!(secured > 0);
    assert_eq!(plain, 0);
    node.stop_well();
    is_whole(&secret);
    // A server without TLS is not spoken with.
    let open = PostgresServer::of_its_own();
    let told = place(&open, "sslmode=require")
        .refuses_to_serve(&[])
        .exits(2);
    assert!(told.err.contains("does not support TLS"), "{}", told.err);
    let node = place(&open, "sslmode=disable").serve();
    assert_eq!(connections(&open)[0], 0);
    node.stop_well();
}

#[test]
fn what_would_secure_half_is_refused() {
    let server = PostgresServer::start();
    for (parameters, why) in [
        ("sslmode=prefer", "disable, require or verify-full"),
        ("sslmode=verify-ca", "disable, require or verify-full"),
        ("sslrootcert=roots.pem", "needs sslmode=verify-full"),
        (
            "sslmode=require&sslrootcert=roots.pem",
            "needs sslmode=verify-full",
        ),
        (
            "sslmode=verify-full&sslrootcert=none.pem",
            "sslrootcert none.pem",
        ),
    ] {
        let told = place(&server, parameters).refuses_to_serve(&[]).exits(2);
        assert!(told.err.contains(why), "{parameters}: {}", told.err);
    }
}
