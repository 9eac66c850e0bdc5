//! Exact money: integer nano-units, rounded once per statement line, half-even.
use gpuaas_proto::google::r#type::Money;

/// Nano-units in one unit of a currency.
pub const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Microseconds in an hour: prices are per GPU-hour, intervals are in microseconds.
pub const MICROSECONDS_PER_HOUR: i128 = 3_600_000_000;
/// Highest price in nano-units per GPU-hour (a million units). With at most 1024 GPUs and any interval the
/// database can hold, every product stays inside 128 bits.
pub const MAX_PRICE_NANOS: i64 = 1_000_000_000_000_000;

/// A currency by its ISO 4217 code: three upper-case letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(String);

impl Currency {
    /// Parses a code; `None` unless it is three upper-case ASCII letters.
    pub fn parse(code: &str) -> Option<Self> {
        let valid = code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase());
        valid.then(|| Self(code.to_owned()))
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What one GPU costs per hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Currency of the price and of every amount made with it.
    pub currency: Currency,
    /// Nano-units per GPU-hour, `0..=MAX_PRICE_NANOS`.
    pub nanos: i64,
}

/// Why a `Money` is not a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The code is not an ISO 4217 code.
    #[error("must be three upper-case letters, for example EUR")]
    Currency,
    /// `nanos` alone is out of its range, or its sign contradicts `units`.
    #[error("must be between -999999999 and 999999999 and have the sign of units")]
    Nanos,
    /// The price is negative.
    #[error("must not be negative")]
    Negative,
    /// The price is above [`MAX_PRICE_NANOS`].
    #[error("must be at most 1000000 per GPU-hour")]
    TooHigh,
}

impl PriceError {
    /// Which part of the `Money` broke the rule.
    pub fn field(self) -> &'static str {
        match self {
            Self::Currency => "currency_code",
            Self::Nanos => "nanos",
            Self::Negative | Self::TooHigh => "units",
        }
    }
}

impl Price {
    /// Parses a price as it comes over the wire.
    ///
    /// # Errors
    /// [`PriceError`] names the part and the rule.
    pub fn parse(money: &Money) -> Result<Self, PriceError> {
        let currency = Currency::parse(&money.currency_code).ok_or(PriceError::Currency)?;
        let nanos = nanos_of(money).ok_or(PriceError::Nanos)?;
        if nanos < 0 {
            return Err(PriceError::Negative);
        }
        match i64::try_from(nanos) {
            Ok(nanos) if nanos <= MAX_PRICE_NANOS => Ok(Self { currency, nanos }),
            _ => Err(PriceError::TooHigh),
        }
    }

    /// The price as it goes over the wire.
    pub fn to_money(&self) -> Money {
        money_of(&self.currency, i128::from(self.nanos))
            .expect("a price is far below the range of Money")
    }
}

/// All nano-units of a `Money`; `None` when `nanos` is out of range or contradicts the sign of `units`.
pub fn nanos_of(money: &Money) -> Option<i128> {
    let (units, nanos) = (i128::from(money.units), i128::from(money.nanos));
    let agrees = units == 0 || nanos == 0 || units.signum() == nanos.signum();
    (nanos.abs() < NANOS_PER_UNIT && agrees).then_some(units * NANOS_PER_UNIT + nanos)
}

/// Nano-units as `Money`; `None` when the units do not fit 64 bits.
pub fn money_of(currency: &Currency, nanos: i128) -> Option<Money> {
    // both truncate towards zero, so both parts carry the sign of the whole
    Some(Money {
        currency_code: currency.as_str().to_owned(),
        units: i64::try_from(nanos / NANOS_PER_UNIT).ok()?,
        nanos: i32::try_from(nanos % NANOS_PER_UNIT).ok()?,
    })
}

/// Amount of one statement line in nano-units: GPUs x time x price, rounded once, half-even. `None` when the
/// product leaves 128 bits, which no interval the database accepts can do.
///
/// ```
/// use gpuaas_billing::domain::money::line_amount;
/// // 8 GPUs for 90 minutes at 2.5 per GPU-hour are 30
/// assert_eq!(line_amount(8, 5_400_000_000, 2_500_000_000), Some(30_000_000_000));
/// ```
pub fn line_amount(gpu_count: u32, microseconds: i64, price_nanos: i64) -> Option<i128> {
    let product = i128::from(gpu_count)
        .checked_mul(i128::from(microseconds))?
        .checked_mul(i128::from(price_nanos))?;
    let (whole, rest) = (
        product.div_euclid(MICROSECONDS_PER_HOUR),
        product.rem_euclid(MICROSECONDS_PER_HOUR),
    );
    let up = match (2 * rest).cmp(&MICROSECONDS_PER_HOUR) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => whole % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    Some(whole + i128::from(up))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rust_decimal::{Decimal, RoundingStrategy};

    use super::*;

    fn money(currency: &str, units: i64, nanos: i32) -> Money {
        Money {
            currency_code: currency.into(),
            units,
            nanos,
        }
    }

    #[test]
    fn prices_are_parsed_or_refused_with_the_rule() {
        let table = [
            (money("EUR", 2, 500_000_000), Ok(2_500_000_000)),
            (money("EUR", 0, 0), Ok(0)),
            (money("USD", 0, 1), Ok(1)),
            (money("USD", 1_000_000, 0), Ok(MAX_PRICE_NANOS)),
            (money("USD", 1_000_000, 1), Err(PriceError::TooHigh)),
            (
                money("USD", i64::MAX, 999_999_999),
                Err(PriceError::TooHigh),
            ),
            (money("eur", 1, 0), Err(PriceError::Currency)),
            (money("EURO", 1, 0), Err(PriceError::Currency)),
            (money("", 1, 0), Err(PriceError::Currency)),
            (money("€", 1, 0), Err(PriceError::Currency)),
            (money("EUR", 1, 1_000_000_000), Err(PriceError::Nanos)),
            (money("EUR", 1, -1), Err(PriceError::Nanos)),
            (money("EUR", -1, 1), Err(PriceError::Nanos)),
            (money("EUR", -1, -1), Err(PriceError::Negative)),
            (money("EUR", 0, -1), Err(PriceError::Negative)),
        ];
        for (wire, expected) in table {
            assert_eq!(Price::parse(&wire).map(|p| p.nanos), expected, "{wire:?}");
        }
    }

    #[test]
    fn lines_are_rounded_once_half_even() {
        let half_hour = 1_800_000_000;
        let table = [
            (1, half_hour, 1, 0),
            (1, half_hour, 3, 2),
            (1, half_hour, 5, 2),
            (1, half_hour + 1, 1, 1),
            (1, half_hour - 1, 3, 1),
            (1, 0, MAX_PRICE_NANOS, 0),
            (8, 3_600_000_000, 2_500_000_000, 20_000_000_000),
            (1, 1, 3_600_000_000, 1),
        ];
        for (gpus, microseconds, price, expected) in table {
            assert_eq!(
                line_amount(gpus, microseconds, price),
                Some(expected),
                "{gpus} x {microseconds} x {price}"
            );
        }
    }

    #[test]
    fn the_longest_interval_at_the_highest_price_fits() {
        assert!(line_amount(1024, i64::MAX / 100, MAX_PRICE_NANOS).is_some());
    }

    proptest! {
        #[test]
        fn lines_agree_with_decimal_arithmetic(gpus in 1u32..=8, microseconds in 0i64..1_000_000_000_000, price in 0i64..1_000_000_000) {
            // the ranges keep the product exact, and the quotient far finer than its distance to a half, in 96 bits
            let exact = Decimal::from(gpus) * Decimal::from(microseconds) * Decimal::from(price);
            let expected = (exact / Decimal::from(MICROSECONDS_PER_HOUR as i64))
                .round_dp_with_strategy(0, RoundingStrategy::MidpointNearestEven);
            prop_assert_eq!(Decimal::from(line_amount(gpus, microseconds, price).unwrap() as i64), expected);
        }

        #[test]
        fn money_and_nanos_convert_both_ways(nanos in -(i128::from(i64::MAX) * NANOS_PER_UNIT)..(i128::from(i64::MAX) * NANOS_PER_UNIT)) {
            let currency = Currency::parse("EUR").unwrap();
            let wire = money_of(&currency, nanos).unwrap();
            prop_assert_eq!(nanos_of(&wire), Some(nanos));
        }

        #[test]
        fn a_split_interval_never_differs_by_more_than_its_roundings(gpus in 1u32..=8, a in 0i64..1_000_000_000_000, b in 0i64..1_000_000_000_000, price in 0i64..=MAX_PRICE_NANOS) {
            let whole = line_amount(gpus, a + b, price).unwrap();
            let parts = line_amount(gpus, a, price).unwrap() + line_amount(gpus, b, price).unwrap();
            prop_assert!((whole - parts).abs() <= 1);
        }
    }
}
