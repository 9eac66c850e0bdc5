//! Who may do what: the policies of `deploy/policies`, in [Cedar](https://www.cedarpolicy.com) (H-19).
//!
//! A method's action and the kind of its resource come from its option in the contract; which actions are allowed together
//! from [`Group`]. Nothing is allowed that no policy permits, and a policy that forbids wins over all that permit: so is a
//! guardrail made that no role of a project or organisation lifts, be it the operator's or the organisation's own. What is
//! decided here depends on who calls, the role in the project or organisation, what the organisation forbids, and the scopes
//! of the key; whose a resource is, services know.
mod decision;
mod error;
mod grant;
mod load;
mod refusal;
mod request;
mod schema;

pub use decision::{Asked, Policies, Resource, Verdict, Who};
pub use error::PolicyError;
pub use grant::{Grant, who};
pub use load::Source;
pub use refusal::Refusal;
pub use request::{named_organisation, named_project, names_a_project};
pub use schema::{SCIM_READ, SCIM_WRITE};

#[cfg(test)]
mod tests;
