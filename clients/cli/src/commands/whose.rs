//! What a command is about: a project, or an organisation where both have such things.
use crate::failure::Failure;
use crate::session::Session;
use crate::{organisation, project};

/// The project of a command.
#[derive(Debug, clap::Args)]
pub struct Of {
    /// Project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

impl Of {
    /// The flag as it was given, for commands that are advised after one that had it.
    pub fn flag(&self) -> String {
        let project = self.project.as_ref();
        project.map_or_else(String::new, |project| format!(" --project {project}"))
    }

    /// Its id; without the flag the only project of the caller.
    ///
    /// # Errors
    /// The caller belongs to none, or to several.
    pub async fn id(self, session: &Session) -> Result<String, Failure> {
        if let Some(id) = project::chosen(&session.api, self.project).await? {
            return Ok(id);
        }
        let own = project::own(&session.api).await;
        match own.as_slice() {
            [one] => Ok(one.id.clone()),
            [] => Err(Failure::Usage("you belong to no project".to_owned())),
            several => {
                let slugs: Vec<&str> = several.iter().map(|one| one.slug.as_str()).collect();
                Err(Failure::Usage(format!(
                    "choose a project with --project: {}",
                    slugs.join(", ")
                )))
            }
        }
    }
}

/// A project or an organisation.
#[derive(Debug, clap::Args)]
pub struct Whose {
    #[command(flatten)]
    of: Of,
    /// Organisation, by slug or id, instead of a project.
    #[arg(long, value_name = "ORGANISATION", conflicts_with = "project")]
    organisation: Option<String>,
}

/// Either of them, by its id.
#[derive(Clone)]
pub enum Owner {
    /// A project.
    Project(String),
    /// An organisation.
    Organisation(String),
}

impl Whose {
    /// What is meant.
    ///
    /// # Errors
    /// There is no such organisation, or it is not said which project.
    pub async fn find(self, session: &Session) -> Result<Owner, Failure> {
        match self.organisation {
            Some(name) => {
                let id = organisation::id(&session.api, &name).await?;
                Ok(Owner::Organisation(id))
            }
            None => Ok(Owner::Project(self.of.id(session).await?)),
        }
    }
}

/// What is done with one of two requests that have the same fields: the one about a project, or the one about an organisation.
macro_rules! about {
    ($owner:expr, $of_project:ident | $of_organisation:ident { $($fields:tt)* }, |$request:ident| $done:expr) => {
        match $owner {
            $crate::commands::whose::Owner::Project(project_id) => {
                let $request = $of_project { project_id, $($fields)* };
                $done
            }
            $crate::commands::whose::Owner::Organisation(organisation_id) => {
                let $request = $of_organisation { organisation_id, $($fields)* };
                $done
            }
        }
    };
}
pub(super) use about;
