package contract

// The values of [abi.Description].Messages: how a module's inputs contain a list of messages.
const (
	MessagesFull = "full" // all messages, as items; the default
	MessagesLazy = "lazy" // no messages; the module requests the ranges it wants
	MessagesNone = "none" // no messages, and the module never requests any
)
