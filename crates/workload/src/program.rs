//! Programs: a test of a workload, compiled with given values for its clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answers;
use super::compile::CompileContext;
pub use super::definition::Protocol;
use super::definition::{Definition, Value};
use super::generation::GeneratorCompiler;
use super::plan::Plan;
use super::script::Script;
use super::steps::Compiler;
use super::tables;
use super::values::Values;
use crate::validation::{ValidationError, find};
use datagen::Stream;
use protocol::script::Names;

/// A test, compiled for all its clients.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) plan: Arc<Plan>,
}

impl Program {
    /// Compile the test `name`. Explicit `values` override the values of the test, which override
    /// `defaults`.
    #[allow(clippy::too_many_arguments)] // a test depends on all of these
    pub fn compile(
        definition: &Definition,
        defaults: &BTreeMap<String, Value>,
        values: &BTreeMap<String, Value>,
        name: &str,
        clients: u32,
        protocol: Protocol,
        seed: u64,
    ) -> Result<Self, ValidationError> {
        let test = find(&definition.tests, "test", name, "tests")?;
        let key = format!("tests.{name}");
        let values = Values::new(defaults, &test.values, values)
            .with("clients", Value::Integer(i64::from(clients)));
        let tables = tables::of_test(definition, test, &values, &key)?;
        let by_client = tables.by_client;
        let covered = if by_client { 1 } else { tables.count() };
        let mut compiler = Compiler {
            context: CompileContext { definition, values: &values, tables: &tables, protocol },
            generators: GeneratorCompiler::new(&definition.generators, &values, seed, covered),
            statements: Vec::new(),
            needs: Vec::new(),
        };
        let transactions = compiler.transactions(name, test, &key)?;
        let Compiler { generators, mut statements, .. } = compiler;
        answers::assign(&mut statements, &generators.used.compiled, &generators.used.answers);
        let mut ids = 0;
        for statement in &mut statements {
            statement.first_id = ids; // an index into the ids of a client
            ids += statement.to_prepare.len().min(tables.reachable());
        }
        let remembers = statements.iter().any(|statement| statement.remembers.is_some());
        let plan = Plan {
            ids,
            names: Names {
                statements: statements.iter().map(|statement| statement.name.clone()).collect(),
                transactions: transactions.iter().map(|(name, _)| name.clone()).collect(),
            },
            statements,
            weights: transactions.last().map_or(0, |(_, last)| last.weights),
            transactions: transactions.into_iter().map(|(_, transaction)| transaction).collect(),
            keeps_values: remembers
                || !(generators.used.answers.is_empty() && generators.used.lasting.is_empty()),
            of_iterations: generators.of_iterations(),
            generators: generators.used,
            tables: tables.count(),
            by_client,
            clients,
            setup: test.client_setup.clone(),
            setup_key: format!("{key}.client_setup"),
            table_names: tables.names,
            values,
            // The stream depends on the test's name, so that a test does not look for the rows that
            // another test has just deleted.
            stream: Stream::named(seed, &format!("clients/{name}")),
        };
        plan.setup_of(0)?;
        Ok(Self { plan: Arc::new(plan) })
    }

    /// Return the names of statements and transactions, in the order of the indexes of requests.
    pub fn names(&self) -> &Names {
        &self.plan.names
    }

    /// Return the statements that a client prepares; pass their ids, in this order, to
    /// [`Self::client`].
    pub fn texts_to_prepare(&self, client: u32) -> Vec<&str> {
        let texts = self.plan.statements.iter().flat_map(|statement| {
            let texts = &statement.to_prepare;
            if self.plan.by_client && texts.len() > 1 {
                let table = (client % self.plan.tables) as usize;
                &texts[table..=table]
            } else {
                &texts[..]
            }
        });
        texts.map(String::as_str).collect()
    }

    /// Return the statements, as text, that a client runs before it begins.
    pub fn client_setup(&self, client: u32) -> Vec<String> {
        self.plan.setup_of(client).expect("names do not depend on the client")
    }

    /// Return the script of the client `client`, counted from 0.
    ///
    /// # Panics
    /// If `ids` does not have one id for each of [`Self::texts_to_prepare`].
    pub fn client(&self, client: u32, ids: Vec<u32>) -> Script {
        assert_eq!(ids.len(), self.plan.ids, "an id for each statement");
        Script::new(Arc::clone(&self.plan), client, ids)
    }
}

#[cfg(test)]
mod tests;
