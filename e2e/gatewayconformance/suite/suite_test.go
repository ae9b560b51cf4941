package suite

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// TestConformance is upstream's suite as its flags say.
func TestConformance(t *testing.T) { conformance.RunConformance(t) }
