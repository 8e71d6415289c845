//! A module for the tests of faults: it panics.

use agent_middleware::*;

#[derive(Default)]
struct Faults;

export!(Faults: before_agent);

impl Middleware for Faults {
    fn before_agent(&mut self, input: BeforeAgentInput) -> Result<BeforeAgentAnswer, Error> {
        let names = [String::from("search")];
        host::log(host::Level::Info, &names[input.run.step as usize]);
        Ok(Default::default())
    }
}
