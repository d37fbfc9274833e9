//! A caller and a callee, each with a key and a node of its own: two signed calls on one chain, each answer verified.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use chancery_client::{Error, Place, Vacant};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let here = ([127, 0, 0, 1], 0).into();
    let mut bob = Vacant::start(&[2; 32], "counts letters", Place::Memory, here).await?;
    let ann = Vacant::start(&[1; 32], "asks", Place::Memory, here).await?;
    let (card, ann_id) = (bob.card(), ann.id());

    // The callee: takes what comes, and signs what it answers.
    let callee = tokio::spawn(async move {
        for _ in 0..2 {
            let heard = bob.next().await?;
            assert_eq!(heard.caller, ann_id, "the node has proven who calls");
            let letters = heard.text.chars().filter(|c| c.is_alphabetic()).count();
            bob.answer(&heard, &format!("{letters} letters")).await?;
        }
        Ok::<_, Error>(bob)
    });

    // The caller: knows an address, and gets what the vacant behind it signed.
    for text in ["hello", "what is a vacant?"] {
        println!("{text} → {}", ann.call(&card, text).await?);
    }
    let bob = callee
        .await
        .map_err(|error| Error::Node(error.to_string()))??;
    ann.stop().await?;
    bob.stop().await
}
