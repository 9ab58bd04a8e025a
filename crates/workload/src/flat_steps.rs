//! The steps of a transaction in their order, while they are compiled.

use super::answers::Condition;
use super::generation::Scope;
use super::plan::{Loop, Step, Times};
use crate::validation::ValidationError;

/// The steps of a transaction and its loops over them.
#[derive(Default)]
pub struct FlatSteps {
    pub steps: Vec<Step>,
    pub loops: Vec<Loop>,
    /// The values of the last step, and the step that makes them: of those with the same values the first.
    pub scope: Scope,
    pub maker: Option<usize>,
}

impl FlatSteps {
    /// Append a step, unless it is left out, and have its values made.
    pub fn push(&mut self, step: Step, key: &str) -> Result<(), ValidationError> {
        if !step.same_values {
            self.maker = (step.times > 0).then_some(self.steps.len());
        }
        if step.times == 0 {
            return Ok(());
        }
        self.steps.push(step);
        let Some(maker) = self.maker else {
            let message = "has the values of the step before it, and there is none";
            return Err(ValidationError::new(format!("{key}.same_values"), message));
        };
        self.steps[maker].generation.clone_from(&self.scope.generation);
        Ok(())
    }

    /// Begin a loop, and return its number.
    pub fn begin_loop(&mut self, times: Times, condition: Option<Condition>) -> usize {
        self.maker = None;
        let begin = self.steps.len();
        self.loops.push(Loop { begin, end: begin, times, condition });
        self.loops.len() - 1
    }

    /// End the loop of this number.
    pub fn end_loop(&mut self, number: usize, key: &str) -> Result<(), ValidationError> {
        self.maker = None;
        let entered = &mut self.loops[number];
        entered.end = self.steps.len();
        if entered.end > entered.begin {
            return Ok(());
        }
        let message = "has nothing to do at these values";
        Err(ValidationError::new(format!("{key}.steps"), message))
    }
}
