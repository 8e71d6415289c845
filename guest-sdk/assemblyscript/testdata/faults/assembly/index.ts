// A module for the tests of faults: an assertion fails.

import { BeforeAgentAnswer, BeforeAgentInput, Description, DescribeInput, describeAs, hook } from "../../../assembly";

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => describeAs(answer, "faults", "1.0.0", "Faults."));
}

export function before_agent(len: i32): i32 {
	return hook<BeforeAgentInput, BeforeAgentAnswer>(len, (input, _) => {
		assert(input.run.step == 0, "the run has begun");
		return null;
	});
}
