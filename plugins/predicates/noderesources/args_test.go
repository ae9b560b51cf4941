package noderesources

import "testing"

func TestParseFitArgs(t *testing.T) {
	args, err := ParseFitArgs([]byte(`{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu"}]}}`))
	if err != nil || args.ScoringStrategy.Type != MostAllocated || args.ScoringStrategy.Resources[0].Weight != 1 {
		t.Errorf("%+v, %v", args, err)
	}
	for _, bad := range []string{
		`3`, `{"ignoredResourceGroups":["a/b"]}`, `{"scoringStrategy":{"type":"Best"}}`, `{"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"cpu","weight":101}]}}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio"}}`, `{"scoringStrategy":{"type":"LeastAllocated","requestedToCapacityRatio":{"shape":[{"utilization":0,"score":0}]}}}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[]}}}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[{"utilization":50,"score":0},{"utilization":50,"score":1}]}}}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[{"utilization":101,"score":0}]}}}`,
		`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[{"utilization":1,"score":11}]}}}`,
	} {
		if _, err := ParseFitArgs([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// Arguments that are accepted can be used.
func FuzzParseFitArgs(f *testing.F) {
	f.Add([]byte(`{"scoringStrategy":{"type":"RequestedToCapacityRatio","requestedToCapacityRatio":{"shape":[{"utilization":0,"score":0},{"utilization":100,"score":10}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		args, err := ParseFitArgs(data)
		if err != nil {
			return
		}
		if s := args.ScoringStrategy; len(s.Resources) == 0 || s.Type == RequestedToCapacityRatio && len(s.Ratio.Shape) == 0 {
			t.Errorf("%s: %+v", data, s)
		}
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // scalar, extended
		"example.com/gpu": {true, true}, "hugepages-2Mi": {true, false}, "kubernetes.io/thing": {true, false}, "attachable-volumes-csi-x": {true, false},
		"thing": {false, false}, "requests.example.com/gpu": {false, false},
	} {
		if Scalar(name) != want[0] || Extended(name) != want[1] {
			t.Errorf("%s: scalar %v, extended %v", name, Scalar(name), Extended(name))
		}
	}
}
