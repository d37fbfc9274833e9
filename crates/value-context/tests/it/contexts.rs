//! Context strings beyond the vectors.

use chancery_value_context::context::{
    ChangeSeverity, Context, ContextFault, Dimension, RiskLevel, change, validate,
};

// VX-CTX-2
#[test]
fn units_are_cut_as_the_rule_says() {
    let values = |text| {
        let context = Context::parse(text).unwrap();
        context.values(Dimension::Time).len()
    };
    assert_eq!(values("⏰🇺🇸🇩🇪"), 2);
    assert_eq!(values("⏰1️⃣2⃣#️⃣*⃣"), 4);
    assert_eq!(
        values("⏰👨‍👩‍👧👋🏽☀️☀"),
        3,
        "☀ with and without selector is one value"
    );
    assert_eq!(values("⏰🏴󠁧󠁢󠁥󠁮󠁧󠁿🌅"), 2);
    assert_eq!(values("⏰©®〰〽㊗㊙"), 6);
}

// VX-CTX-2, VX-CTX-4, VX-CTX-7, VX-CTX-9
#[test]
fn each_fault_has_its_name() {
    let cases = [
        ("", ContextFault::Empty),
        ("⏰🌅||📍🏡", ContextFault::EmptySegment),
        ("⏰", ContextFault::NoValue),
        ("🪢", ContextFault::NoValue),
        ("🦄", ContextFault::NoValue),
        ("🌡️🔥|🌡🥶", ContextFault::RepeatedSymbol),
        ("🎩a|🎩b", ContextFault::RepeatedSymbol),
        ("🦄🌈|⏰🌅|🦄️🌈", ContextFault::RepeatedSymbol),
        ("⏰🌅 ", ContextFault::Character),
        ("⏰🌅\n", ContextFault::Character),
        ("⏰1", ContextFault::Character),
        ("T:morning", ContextFault::Character),
        ("⏰\u{FE0F}", ContextFault::NoValue),
        ("⏰\u{1F3FD}", ContextFault::NoValue),
        ("\u{1F3FD}⏰", ContextFault::Character),
        ("⏰🌅🇺", ContextFault::LoneRegionalIndicator),
        ("⏰👨\u{200D}", ContextFault::DanglingJoiner),
        ("⏰👨\u{200D}a", ContextFault::DanglingJoiner),
        ("‖", ContextFault::EmptyBand),
        ("⏰🌅|‖x", ContextFault::EmptySegment),
    ];
    for (text, fault) in cases {
        assert_eq!(validate(text), Err(fault), "{text:?}");
        assert_eq!(Context::parse(text).unwrap_err(), fault, "{text:?}");
        assert!(fault.requirement().starts_with("VX-CTX-"));
    }
}

// VX-CTX-4
#[test]
fn limits_count_code_points_and_values_as_written() {
    let free_text = |length: usize| format!("🪢{}", "x".repeat(length));
    assert_eq!(validate(&free_text(511)), Ok(()));
    assert_eq!(validate(&free_text(512)), Err(ContextFault::TooLong));
    assert_eq!(validate(&format!("🦄{}", "🌈".repeat(16))), Ok(()));
    let seventeen = format!("🦄{}", "🌈".repeat(17));
    assert_eq!(validate(&seventeen), Err(ContextFault::TooManyValues));
}

// VX-CTX-6, VX-CTX-7
#[test]
fn later_symbols_and_the_band_are_kept_unread() {
    let text = "🪢free text, any: ○|📍💻|🎩x|🦄🌈‖‖ a|b";
    let context = Context::parse(text).unwrap();
    assert_eq!(
        context.opaque_segments(),
        ["🪢free text, any: ○", "🎩x", "🦄🌈"]
    );
    assert_eq!(context.personal_band(), Some("‖ a|b"));
    assert_eq!(
        context.canonical(),
        "📍💻|🪢free text, any: ○|🎩x|🦄🌈‖‖ a|b"
    );
}

// VX-CTX-3, VX-CTX-5, VX-CTX-10
#[test]
fn known_values_are_written_as_in_the_table_and_unknown_ones_kept() {
    let context = Context::parse("🌡🌪🌪️😎|⏰🌅").unwrap();
    assert_eq!(context.canonical(), "⏰🌅|🌡️🌪️😎");
    assert_eq!(context.unknown_values(), ["😎"]);
    let names: Vec<_> = context
        .values(Dimension::Environment)
        .iter()
        .map(|value| value.name)
        .collect();
    assert_eq!(names, [Some("dangerous"), None]);
}

// VX-CTX-10: NFC.
#[test]
fn the_canonical_form_is_composed() {
    let context = Context::parse("🪢cafe\u{301}").unwrap();
    assert_eq!(context.canonical(), "🪢caf\u{e9}");
}

// VX-CTX-11
#[test]
fn an_emergency_value_counts_in_its_three_dimensions_only() {
    let risk = |text| Context::parse(text).unwrap().risk_level();
    assert_eq!(risk("🔶🚨"), RiskLevel::Critical);
    assert_eq!(risk("🎭🔥"), RiskLevel::Critical);
    assert_eq!(risk("📍🔥"), RiskLevel::Normal);
    assert_eq!(risk("🧠🥺|📍🏢"), RiskLevel::Elevated);
    assert_eq!(risk("👥👔"), RiskLevel::Standard);
}

// VX-CTX-12
#[test]
fn three_changed_dimensions_are_major_and_opaque_segments_do_not_count() {
    let between = |from, to| {
        let (from, to) = (Context::parse(from).unwrap(), Context::parse(to).unwrap());
        change(&from, &to).map(|change| change.severity)
    };
    assert_eq!(
        between("⏰🌅|📍🏡", "⏰🌙|📍🏢"),
        Some(ChangeSeverity::Minor)
    );
    assert_eq!(
        between("⏰🌅|📍🏡", "⏰🌙|📍🏢|🧠😊"),
        Some(ChangeSeverity::Major)
    );
    assert_eq!(between("⏰🌅|🦄🌈", "⏰🌅‖x"), None);
    assert_eq!(
        between("🎭🚨", "🎭🚨|⏰🌅"),
        Some(ChangeSeverity::Emergency)
    );
    assert_eq!(between("⏰☀", "⏰☀️"), None);
}
