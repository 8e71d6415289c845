package contract

// The levels of the import "log".
const (
	LogDebug = iota
	LogInfo
	LogWarn
	LogError
)

// LogLevel returns the name of a level of the import "log". Numbers below LogDebug count as debug,
// numbers above LogError as error.
func LogLevel(n int32) string {
	switch {
	case n <= LogDebug:
		return "debug"
	case n == LogInfo:
		return "info"
	case n == LogWarn:
		return "warn"
	default:
		return "error"
	}
}
