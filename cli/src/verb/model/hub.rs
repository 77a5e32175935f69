//! Models from the Hugging Face hub, through its own client crate and cache.

use std::path::Path;

use anyhow::{Context as _, bail};
use engine::config::Config;
use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use hf_hub::{Repo, RepoType};

use super::pull::Pulled;

/// Files a model may have besides its weights.
const SMALL: [&str; 5] =
    ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

/// Gets `ORG/NAME[@REVISION]` into `models/ORG--NAME`.
pub fn pull(repository: &str, models: &Path) -> anyhow::Result<Pulled> {
    let (id, revision) = repository.split_once('@').unwrap_or((repository, "main"));
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let Some((org, name)) = id.split_once('/').filter(|(org, name)| plain(org) && plain(name)) else {
        bail!("`hf:{repository}` is not of the form hf:ORG/NAME or hf:ORG/NAME@REVISION");
    };
    let target = models.join(format!("{org}--{name}"));
    let api = ApiBuilder::from_env().with_progress(false).build().context("setting up the hub client")?;
    let at = |revision: &str| api.repo(Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned()));
    let about = at(revision).info().with_context(|| format!("asking the hub about {id} at {revision}"))?;
    let source = format!("hub {id} at {}", about.sha);
    let pulled =
        |fetched| Pulled { name: format!("{org}--{name}"), folder: target.clone(), fetched, source: source.clone() };
    if target.exists() {
        bail!("{} exists; remove it to pull {id} again", target.display());
    }
    // One commit for all files, whatever moves meanwhile.
    let repo = at(&about.sha);
    let has = |file: &str| about.siblings.iter().any(|s| s.rfilename == file);
    let scratch = tempfile::tempdir_in(models).context("making a scratch folder in the models folder")?;
    for file in SMALL.into_iter().filter(|f| has(f)) {
        fetch(&repo, file, scratch.path())?;
    }
    // A model that cannot be run is refused before its weights are fetched.
    let config = std::fs::read(scratch.path().join(SMALL[0])).with_context(|| format!("{id} has no {}", SMALL[0]))?;
    Config::parse(&config).with_context(|| format!("{id} cannot be run here"))?;
    if has(INDEX) {
        fetch(&repo, INDEX, scratch.path())?;
        let index = std::fs::read(scratch.path().join(INDEX))?;
        let files = engine::model::ModelFiles::from_bytes([(INDEX, index)]);
        for shard in files.weight_files()? {
            fetch(&repo, &shard, scratch.path())?;
        }
    } else {
        fetch(&repo, WEIGHTS, scratch.path())?;
    }
    std::fs::rename(scratch.keep(), &target).with_context(|| format!("moving the model to {}", target.display()))?;
    Ok(pulled(true))
}

/// One file, by way of the client's cache.
fn fetch(repo: &ApiRepo, file: &str, to: &Path) -> anyhow::Result<()> {
    let cached = repo.get(file).with_context(|| format!("fetching {file}"))?;
    std::fs::copy(&cached, to.join(file)).with_context(|| format!("copying {file}"))?;
    Ok(())
}
