package slug

import "testing"

func TestOf(t *testing.T) {
	for title, want := range map[string]string{
		"Two words":      "two-words",
		"Bread & butter": "bread-butter",
	} {
		if got := Of(title); got != want {
			t.Errorf("Of(%q) = %q, want %q", title, got, want)
		}
	}
}
