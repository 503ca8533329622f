//! Names as Suricata 8.0.7 writes them: of payloads, of the values of IKE 1's attributes (RFC 2409 appendix A), of
//! IKE 2's transforms and notifications (RFC 7296 3.3.2, 3.10.1).

use std::borrow::Cow;

/// Payloads of IKE 1.
const PAYLOADS_1: &[(u16, &str)] = &[
    (0, "None"),
    (1, "SecurityAssociation"),
    (2, "Proposal"),
    (3, "Transform"),
    (4, "KeyExchange"),
    (5, "Identification"),
    (6, "Certificate"),
    (7, "CertificateRequest"),
    (8, "Hash"),
    (9, "Signature"),
    (10, "Nonce"),
    (11, "Notification"),
    (12, "Delete"),
    (13, "VendorID"),
    (15, "SaKekPayload"),
    (16, "SaTekPayload"),
    (17, "KeyDownload"),
    (18, "SequenceNumber"),
    (19, "ProofOfPossession"),
    (20, "NatDiscovery"),
    (21, "NatOriginalAddress"),
    (22, "GroupAssociatedPolicy"),
];

/// Payloads of IKE 2.
const PAYLOADS_2: &[(u16, &str)] = &[
    (0, "NoNextPayload"),
    (33, "SecurityAssociation"),
    (34, "KeyExchange"),
    (35, "IdentInitiator"),
    (36, "IdentResponder"),
    (37, "Certificate"),
    (38, "CertificateRequest"),
    (39, "Authentication"),
    (40, "Nonce"),
    (41, "Notify"),
    (42, "Delete"),
    (43, "VendorID"),
    (44, "TSInitiator"),
    (45, "TSResponder"),
    (46, "EncryptedAndAuthenticated"),
    (47, "Configuration"),
    (48, "ExtensibleAuthentication"),
];

/// Encryption of IKE 1.
const ENCRYPTION_1: &[(u16, &str)] = &[
    (1, "EncDesCbc"),
    (2, "EncIdeaCbc"),
    (3, "EncBlowfishCbc"),
    (4, "EncRc5R16B64Cbc"),
    (5, "EncTripleDesCbc"),
    (6, "EncCastCbc"),
    (7, "EncAesCbc"),
    (8, "EncCamelliaCbc"),
];

/// Hashes of IKE 1.
const HASH_1: &[(u16, &str)] = &[
    (1, "HashMd5"),
    (2, "HashSha"),
    (3, "HashTiger"),
    (4, "HashSha2_256"),
    (5, "HashSha2_384"),
    (6, "HashSha2_512"),
];

/// Authentication of IKE 1.
const AUTH_1: &[(u16, &str)] = &[
    (1, "AuthPreSharedKey"),
    (2, "AuthDssSignatures"),
    (3, "AuthRsaSignatures"),
    (4, "AuthEncryptionWithRsa"),
    (5, "AuthRevisedEncryptionWithRsa"),
    (6, "AuthReserved"),
    (7, "AuthReserved"),
    (8, "AuthReserved"),
    (9, "AuthEcdsaSha256"),
    (10, "AuthEcdsaSha384"),
    (11, "AuthEcdsaSha512"),
];

/// Groups of IKE 1.
const GROUP_1: &[(u16, &str)] = &[
    (1, "GroupDefault768BitModp"),
    (2, "GroupAlternate1024BitModpGroup"),
    (3, "GroupEc2nOnGp2p155"),
    (4, "GroupEc2nOnGp2p185"),
    (5, "GroupModp1536Bit"),
    (6, "GroupEc2nOverGf2p163"),
    (7, "GroupEc2nOverGf2p163"),
    (8, "GroupEc2nOverGf2p283"),
    (9, "GroupEc2nOverGf2p283"),
    (10, "GroupEc2nOverGf2p409"),
    (11, "GroupEc2nOverGf2p409"),
    (12, "GroupEc2nOverGf2p571"),
    (13, "GroupEc2nOverGf2p571"),
    (14, "GroupModp2048Bit"),
    (15, "GroupModp3072Bit"),
    (16, "GroupModp4096Bit"),
    (17, "GroupModp6144Bit"),
    (18, "GroupModp8192Bit"),
    (19, "GroupRandomEcp256"),
    (20, "GroupRandomEcp384"),
    (21, "GroupRandomEcp521"),
    (22, "GroupModp1024With160BitPrime"),
    (23, "GroupModp2048With224BitPrime"),
    (24, "GroupModp2048With256BitPrime"),
    (25, "GroupRandomEcp192"),
    (26, "GroupRandomEcp224"),
    (27, "GroupBrainpoolEcp224"),
    (28, "GroupBrainpoolEcp256"),
    (29, "GroupBrainpoolEcp384"),
    (30, "GroupBrainpoolEcp512"),
];

/// Units of lifetimes of IKE 1.
const LIFE_1: &[(u16, &str)] = &[(1, "LifeTypeSeconds"), (2, "LifeTypeKilobytes")];

/// Encryption of IKE 2.
const ENCRYPTION_2: &[(u16, &str)] = &[
    (1, "ENCR_DES_IV64"),
    (2, "ENCR_DES"),
    (3, "ENCR_3DES"),
    (4, "ENCR_RC5"),
    (5, "ENCR_IDEA"),
    (6, "ENCR_CAST"),
    (7, "ENCR_BLOWFISH"),
    (8, "ENCR_3IDEA"),
    (9, "ENCR_DES_IV32"),
    (11, "ENCR_NULL"),
    (12, "ENCR_AES_CBC"),
    (13, "ENCR_AES_CTR"),
    (14, "ENCR_AES_CCM_8"),
    (15, "ENCR_AES_CCM_12"),
    (16, "ENCR_AES_CCM_16"),
    (18, "ENCR_AES_GCM_8"),
    (19, "ENCR_AES_GCM_12"),
    (20, "ENCR_AES_GCM_16"),
    (21, "ENCR_NULL_AUTH_AES_GMAC"),
    (23, "ENCR_CAMELLIA_CBC"),
    (24, "ENCR_CAMELLIA_CTR"),
    (25, "ENCR_CAMELLIA_CCM_8"),
    (26, "ENCR_CAMELLIA_CCM_12"),
    (27, "ENCR_CAMELLIA_CCM_16"),
    (28, "ENCR_CHACHA20_POLY1305"),
];

/// Pseudorandom functions of IKE 2.
const PRF_2: &[(u16, &str)] = &[
    (0, "PRF_NULL"),
    (1, "PRF_HMAC_MD5"),
    (2, "PRF_HMAC_SHA1"),
    (3, "PRF_HMAC_TIGER"),
    (4, "PRF_AES128_XCBC"),
    (5, "PRF_HMAC_SHA2_256"),
    (6, "PRF_HMAC_SHA2_384"),
    (7, "PRF_HMAC_SHA2_512"),
    (8, "PRF_AES128_CMAC"),
];

/// Integrity of IKE 2.
const INTEGRITY_2: &[(u16, &str)] = &[
    (0, "NONE"),
    (1, "AUTH_HMAC_MD5_96"),
    (2, "AUTH_HMAC_SHA1_96"),
    (3, "AUTH_DES_MAC"),
    (4, "AUTH_KPDK_MD5"),
    (5, "AUTH_AES_XCBC_96"),
    (6, "AUTH_HMAC_MD5_128"),
    (7, "AUTH_HMAC_SHA1_160"),
    (8, "AUTH_AES_CMAC_96"),
    (9, "AUTH_AES_128_GMAC"),
    (10, "AUTH_AES_192_GMAC"),
    (11, "AUTH_AES_256_GMAC"),
    (12, "AUTH_HMAC_SHA2_256_128"),
    (13, "AUTH_HMAC_SHA2_384_192"),
    (14, "AUTH_HMAC_SHA2_512_256"),
];

/// Groups of IKE 2.
const GROUP_2: &[(u16, &str)] = &[
    (0, "None"),
    (1, "Modp768"),
    (2, "Modp1024"),
    (5, "Modp1536"),
    (14, "Modp2048"),
    (15, "Modp3072"),
    (16, "Modp4096"),
    (17, "Modp6144"),
    (18, "Modp8192"),
    (19, "Ecp256"),
    (20, "Ecp384"),
    (21, "Ecp521"),
    (22, "Modp1024s160"),
    (23, "Modp2048s224"),
    (24, "Modp2048s256"),
    (25, "Ecp192"),
    (26, "Ecp224"),
    (27, "BrainpoolP224r1"),
    (28, "BrainpoolP256r1"),
    (29, "BrainpoolP384r1"),
    (30, "BrainpoolP512r1"),
    (31, "Curve25519"),
    (32, "Curve448"),
];

/// Extended sequence numbers of IKE 2.
const SEQUENCE_2: &[(u16, &str)] = &[(0, "NoESN"), (1, "ESN")];

/// Notifications of IKE 2.
const NOTIFICATIONS: &[(u16, &str)] = &[
    (1, "UNSUPPORTED_CRITICAL_PAYLOAD"),
    (4, "INVALID_IKE_SPI"),
    (5, "INVALID_MAJOR_VERSION"),
    (7, "INVALID_SYNTAX"),
    (9, "INVALID_MESSAGE_ID"),
    (11, "INVALID_SPI"),
    (14, "NO_PROPOSAL_CHOSEN"),
    (17, "INVALID_KE_PAYLOAD"),
    (24, "AUTHENTICATION_FAILED"),
    (34, "SINGLE_PAIR_REQUIRED"),
    (35, "NO_ADDITIONAL_SAS"),
    (36, "INTERNAL_ADDRESS_FAILURE"),
    (37, "FAILED_CP_REQUIRED"),
    (38, "TS_UNACCEPTABLE"),
    (39, "INVALID_SELECTORS"),
    (43, "TEMPORARY_FAILURE"),
    (44, "CHILD_SA_NOT_FOUND"),
    (16384, "INITIAL_CONTACT"),
    (16385, "SET_WINDOW_SIZE"),
    (16386, "ADDITIONAL_TS_POSSIBLE"),
    (16387, "IPCOMP_SUPPORTED"),
    (16388, "NAT_DETECTION_SOURCE_IP"),
    (16389, "NAT_DETECTION_DESTINATION_IP"),
    (16390, "COOKIE"),
    (16391, "USE_TRANSPORT_MODE"),
    (16392, "HTTP_CERT_LOOKUP_SUPPORTED"),
    (16393, "REKEY_SA"),
    (16394, "ESP_TFC_PADDING_NOT_SUPPORTED"),
    (16395, "NON_FIRST_FRAGMENTS_ALSO"),
    (16404, "MULTIPLE_AUTH_SUPPORTED"),
    (16405, "ANOTHER_AUTH_FOLLOWS"),
    (16406, "REDIRECT_SUPPORTED"),
    (16430, "IKEV2_FRAGMENTATION_SUPPORTED"),
    (16431, "SIGNATURE_HASH_ALGORITHMS"),
];

/// Keys of the attributes of IKE 1.
const ATTRIBUTES: &[(u16, &str)] = &[
    (1, "alg_enc"),
    (2, "alg_hash"),
    (3, "alg_auth"),
    (4, "alg_dh"),
    (5, "sa_group_type"),
    (6, "sa_group_prime"),
    (7, "sa_group_generator_one"),
    (8, "sa_group_generator_two"),
    (9, "sa_group_curve_a"),
    (10, "sa_group_curve_b"),
    (11, "sa_life_type"),
    (12, "sa_life_duration"),
    (13, "alg_prf"),
    (14, "sa_key_length"),
    (15, "sa_field_size"),
    (16, "sa_group_order"),
];

/// Exchanges of IKE 1.
const EXCHANGES: &[(u16, &str)] = &[
    (1, "Base"),
    (2, "Identity Protection"),
    (3, "Authentication Only"),
    (4, "Aggressive"),
    (5, "Informational"),
    (6, "Transaction (Config Mode)"),
    (32, "Quick Mode"),
    (33, "New Group Mode"),
];

fn find_name(table: &'static [(u16, &'static str)], number: u16) -> Option<&'static str> {
    table.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

fn name_or_number(
    table: &'static [(u16, &'static str)],
    kind: &str,
    number: u16,
) -> Cow<'static, str> {
    match find_name(table, number) {
        Some(name) => name.into(),
        None => format!("{kind}({number} / {number:#x})").into(),
    }
}

/// A payload of IKE 1; others have no name.
pub(super) fn payload_1(kind: u8) -> Option<&'static str> {
    find_name(PAYLOADS_1, kind.into())
}

/// A payload of IKE 2.
pub(super) fn payload_2(kind: u8) -> Cow<'static, str> {
    name_or_number(PAYLOADS_2, "IkePayloadType", kind.into())
}

/// An exchange of IKE 1.
pub(super) fn exchange_1(kind: u8) -> Option<&'static str> {
    find_name(EXCHANGES, kind.into())
}

/// The key of an attribute of IKE 1.
pub(super) fn attribute_key(kind: u16) -> &'static str {
    find_name(ATTRIBUTES, kind).unwrap_or("unknown")
}

/// The value of an attribute of IKE 1.
pub(super) fn attribute_value(kind: u16, value: u16) -> &'static str {
    let table = match kind {
        1 => ENCRYPTION_1,
        2 => HASH_1,
        3 => AUTH_1,
        4 => GROUP_1,
        11 => LIFE_1,
        _ => &[],
    };
    find_name(table, value).unwrap_or("Unknown")
}

/// Encryption of IKE 2.
pub(super) fn encryption_2(id: u16) -> Cow<'static, str> {
    name_or_number(ENCRYPTION_2, "IkeTransformEncType", id)
}

/// A pseudorandom function of IKE 2.
pub(super) fn prf_2(id: u16) -> Cow<'static, str> {
    name_or_number(PRF_2, "IkeTransformPRFType", id)
}

/// Integrity of IKE 2.
pub(super) fn integrity_2(id: u16) -> Cow<'static, str> {
    name_or_number(INTEGRITY_2, "IkeTransformAuthType", id)
}

/// A group of IKE 2.
pub(super) fn group_2(id: u16) -> Cow<'static, str> {
    name_or_number(GROUP_2, "IkeTransformDHType", id)
}

/// Extended sequence numbers of IKE 2.
pub(super) fn sequence_2(id: u16) -> Cow<'static, str> {
    name_or_number(SEQUENCE_2, "IkeTransformESNType", id)
}

/// A notification of IKE 2.
pub(super) fn notification_2(kind: u16) -> Cow<'static, str> {
    name_or_number(NOTIFICATIONS, "NotifyType", kind)
}
