package kernel

import (
	"slices"
	"testing"
)

// Each server that is reached over plain http is warned of, on loopback too.
func TestWithoutTLS(t *testing.T) {
	got := withoutTLS([]string{"https://10.0.0.5:2379", "http://127.0.0.1:2379", "http://10.0.0.6:2379"})
	if want := []string{"http://127.0.0.1:2379", "http://10.0.0.6:2379"}; !slices.Equal(got, want) {
		t.Errorf("without TLS %q, want %q", got, want)
	}
	if got := withoutTLS([]string{"https://10.0.0.5:2379"}); len(got) != 0 {
		t.Errorf("without TLS %q, want none", got)
	}
}
