package config

import (
	"encoding/json"
	"slices"
	"testing"
)

// The ranges of pod IPs that configs/standalone.yaml gives to others leave out the kernel's own node's, also while its
// Node does not exist.
func TestShippedRanges(t *testing.T) {
	cfg, err := Load(Source{File: "../../configs/standalone.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range cfg.Plugins.Bundles {
		if b.Name != "controllers" {
			continue
		}
		var c struct {
			NodeIPAM struct {
				ReservedCIDRs []string `json:"reservedCIDRs"`
			} `json:"nodeipam"`
		}
		if err := json.Unmarshal(b.Config, &c); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(c.NodeIPAM.ReservedCIDRs, cfg.Node.PodCIDR) {
			t.Errorf("nodeipam gives %s of this machine to others: it reserves %v", cfg.Node.PodCIDR, c.NodeIPAM.ReservedCIDRs)
		}
		return
	}
	t.Error("there is no bundle of controllers")
}
