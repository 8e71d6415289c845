package hints

// Signal subscribes to a topic whose hints have no content. The channel receives a value when one
// arrives, but no second one until the first is received. If the topic is invalid or the bus fails,
// Signal returns an error and a channel that receives nothing.
func Signal(b Bus, topic string) (signal <-chan struct{}, cancel func(), err error) {
	c := make(chan struct{}, 1)
	cancel, err = b.Subscribe(topic, func([]byte) {
		select {
		case c <- struct{}{}:
		default: // one is waiting
		}
	})
	if err != nil {
		cancel = func() {}
	}
	return c, cancel, err
}
