package fairshare_test

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/fairshare"
)

// Example shares two processors among tenants. A tenant uses at most one at a time, and a quarter of
// its time in the long run.
func Example() {
	processors := fairshare.NewSemaphore(2, 1, 100)
	budget := fairshare.NewBudget(0.25, 250*time.Millisecond, time.Second)

	release, err := processors.Acquire(context.Background(), "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	took := 260 * time.Millisecond // duration of the work
	delay := budget.Charge("acme", took)
	release(delay) // others have the processor now, acme after the delay

	fmt.Println("delay:", delay.Round(time.Millisecond))
	// Output: delay: 40ms
}
