package clustersim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// disturb kills a server, and then makes one random fault after the other for the time d. Servers that
// are killed are replaced.
func (c *simulation) disturb(d time.Duration) {
	c.restart(0)
	var faults sync.WaitGroup
	for end := time.Now().Add(d); time.Now().Before(end); {
		i := c.random.IntN(len(c.servers))
		s, length := c.servers[i], time.Duration(2+c.random.IntN(18))*time.Second
		switch c.random.IntN(6) {
		case 0:
			c.restart(i)
		case 1:
			s.cutBus(true)
			s.pause()
			faults.Go(func() {
				time.Sleep(length)
				s.cutBus(false)
				s.proceed()
			})
		case 2:
			s.cutOff(1)
			faults.Go(func() {
				time.Sleep(length)
				s.cutOff(-1)
			})
		case 3:
			s.cutBus(true)
			faults.Go(func() {
				time.Sleep(length)
				s.cutBus(false)
			})
		case 4:
			s.jump(time.Duration(c.random.IntN(121)-60) * time.Second)
		case 5:
			c.network.SetFault(c.partition())
			time.Sleep(length / 4)
			c.network.SetFault(c.noise())
		}
		time.Sleep(time.Duration(500+c.random.IntN(1500)) * time.Millisecond)
	}
	faults.Wait()
	c.network.SetFault(nil)
}

// noise loses, repeats and delays some hints.
func (c *simulation) noise() func(from, to int) (int, time.Duration) {
	return func(int, int) (int, time.Duration) {
		switch n := rand.IntN(100); {
		case n < 5:
			return 0, 0
		case n < 10:
			return 2, 0
		case n < 15:
			return 1, time.Duration(rand.IntN(300)) * time.Millisecond
		}
		return 1, 0
	}
}

// partition divides the network of hints at random, in one or both directions.
func (c *simulation) partition() func(from, to int) (int, time.Duration) {
	parts, oneWay, seed := 2+c.random.IntN(2), c.random.IntN(2) == 0, c.random.Uint64()
	part := func(server int) uint64 { return (uint64(server)*0x9e3779b97f4a7c15 ^ seed) >> 7 % uint64(parts) }
	return func(from, to int) (int, time.Duration) {
		if a, b := part(from), part(to); a < b || a > b && !oneWay {
			return 0, 0
		}
		return 1, 0
	}
}
