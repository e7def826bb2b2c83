//! What a session or a person keeps: title, model, and what is allowed for good.

use super::sample::{Owner, Subject, at, key, missing, new_session};
use crate::model::{Allowance, KeptAllowance, KeptModel, NewSession, Release};
use serde_json::json;
use turnbuckle_core::allowance::ArgTest;
use turnbuckle_core::ids::SessionId;

/// An owner may name an untitled session; what a person called it stays, whoever comes first.
pub async fn a_title_given_by_a_person_stays(store: Subject) {
    let untitled = key("untitled");
    let new = NewSession { title: None, ..new_session(&untitled, at(0)) };
    store.create_session(new).await.unwrap();
    let owner = Owner::claim(&store, &untitled, "one", at(0)).await;
    let made = |title: &str| {
        let mut commit = owner.commit(at(1));
        commit.title = Some(title.to_owned());
        commit
    };
    owner.write(made("Parcel")).await;
    let title = async || store.session(&untitled).await.unwrap().title;
    assert_eq!(title().await.as_deref(), Some("Parcel"));
    owner.write(made("Another parcel")).await;
    assert_eq!(title().await.as_deref(), Some("Parcel"));
    store.set_title(&untitled, "Mine", at(2)).await.unwrap();
    owner.write(made("Parcel again")).await;
    assert_eq!(title().await.as_deref(), Some("Mine"));
}

/// What an owner keeps does not take the place of what was chosen since it looked.
pub async fn a_model_chosen_meanwhile_stays(store: Subject) {
    let key = key("s");
    let owner = Owner::of_new(&store, &key).await;
    let keep = |instead_of: Option<&str>, model: &str| {
        let mut commit = owner.commit(at(1));
        let instead_of = instead_of.map(str::to_owned);
        commit.model = Some(KeptModel { instead_of, model: model.to_owned() });
        commit
    };
    let model = async || store.session(&key).await.unwrap().model;
    owner.write(keep(Some("rehearsal"), "p:a")).await;
    assert_eq!(model().await.as_deref(), Some("p:a"));
    store.set_model(&key, "p:b").await.unwrap();
    for seen in [Some("p:a"), None] {
        owner.write(keep(seen, "p:c")).await;
        assert_eq!(model().await.as_deref(), Some("p:b"));
    }
    missing(store.set_model(&super::sample::key("none"), "p:a").await);
}

/// What a person allowed is found for them alone, once, until it is taken back or its session goes.
pub async fn allowances_belong_to_a_person(store: Subject) {
    let [here, there] = ["here", "there"].map(key);
    let owner = Owner::of_new(&store, &here).await;
    let test: ArgTest = serde_json::from_value(json!({"path": "amount", "below": 10.0})).unwrap();
    let always = Allowance {
        id: "c1".into(),
        user: "ann".into(),
        session: None,
        agent: "main".into(),
        tool: "pay".into(),
        args: vec![test],
        at: at(1),
    };
    let session: SessionId = here.id.clone();
    let once = Allowance {
        id: "c2".into(),
        session: Some(session.clone()),
        args: Vec::new(),
        ..always.clone()
    };
    let bobs = Allowance { id: "c3".into(), user: "bob".into(), ..always.clone() };
    let mut commit = owner.commit(at(1));
    commit.allowances = vec![always.clone(), once.clone(), bobs.clone()];
    owner.write(commit).await;
    // Said again beside another card, it is the same; taking back the one takes it back.
    let mut commit = owner.commit(at(2));
    let again = |a: &Allowance, id: &str| Allowance { id: id.into(), at: at(2), ..a.clone() };
    commit.allowances = vec![again(&always, "c4"), again(&once, "c5")];
    owner.write(commit).await;

    let (acme, ann) = ("acme".into(), "ann".into());
    let list =
        async |session: Option<&SessionId>| store.allowances(&acme, &ann, session).await.unwrap();
    assert_eq!(list(None).await, [always.clone(), once.clone()]);
    assert_eq!(list(Some(&session)).await, [always.clone(), once.clone()]);
    assert_eq!(list(Some(&there.id)).await, std::slice::from_ref(&always));
    assert_eq!(
        store.allowances(&acme, &"bob".into(), None).await.unwrap(),
        std::slice::from_ref(&bobs)
    );
    assert_eq!(store.allowances(&"other".into(), &ann, None).await.unwrap(), []);

    // Everyone's, page by page, and written into another place: what is there already stays as it is.
    let mut every = Vec::new();
    loop {
        let after = every.last().map_or(0, |kept: &KeptAllowance| kept.n);
        let page = store.every_allowance(after, 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        every.extend(page);
    }
    let allowed = |kept: &KeptAllowance| (kept.tenant.clone(), kept.allowance.clone());
    let told = [&always, &once, &bobs].map(|allowance| (acme.clone(), (*allowance).clone()));
    assert_eq!(every.iter().map(allowed).collect::<Vec<_>>(), told);
    store.allow(&acme, &again(&always, "c6")).await.unwrap();
    assert_eq!(list(None).await, [always.clone(), once.clone()]);
    store.allow(&"other".into(), &always).await.unwrap();
    assert_eq!(store.every_allowance(0, 9).await.unwrap().len(), 4);
    missing(store.allow(&"other".into(), &once).await);
    let nowhere = Allowance { session: Some("nowhere".into()), ..once.clone() };
    missing(store.allow(&acme, &nowhere).await);
    store.take_back(&"other".into(), &ann, &"c1".into()).await.unwrap();

    missing(store.take_back(&"other".into(), &ann, &"c1".into()).await);
    missing(store.take_back(&acme, &"bob".into(), &"c1".into()).await);
    store.take_back(&acme, &ann, &"c1".into()).await.unwrap();
    missing(store.take_back(&acme, &ann, &"c1".into()).await);
    assert_eq!(list(None).await, std::slice::from_ref(&once));

    store.release(&here, owner.fence, Release::WhenDrained).await.unwrap();
    store.delete_session(&here, at(3)).await.unwrap();
    assert_eq!(list(None).await, []);
}
