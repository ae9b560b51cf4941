package dynamicresources

import (
	"testing"

	"pintle.dev/pintle/sdk/plugintest"
)

func TestFilter(t *testing.T) {
	c := plugintest.NewCluster().Node("n")
	c.WantVerdicts(t, New(), &plugintest.Pod{}, plugintest.Verdicts{"n": plugintest.Fits})
	c.WantVerdicts(t, New(), &plugintest.Pod{ResourceClaims: []string{"gpu"}}, plugintest.Verdicts{"n": Reason})
}
