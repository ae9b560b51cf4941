package settings

import (
	"strings"
	"testing"

	"pintle.dev/pintle/sdk/controller"
)

func TestWorkers(t *testing.T) {
	for in, want := range map[string]struct {
		n     int
		fault string
	}{
		"": {n: 5}, " \n": {n: 5}, "{}": {n: 5}, `{"syncs": 1}`: {n: 1}, `{"syncs":1000}`: {n: 1000},
		`{"syncs":0}`: {fault: "syncs: 0 is not within 1 and 1000"}, `{"syncs":1001}`: {fault: "1001 is not within"}, `{"syncs":-1}`: {fault: "-1 is not within"},
		`{"syncs":1e99}`: {fault: "cannot unmarshal"}, `{"syncs":"5"}`: {fault: "cannot unmarshal"}, `{"syncs":1.5}`: {fault: "cannot unmarshal"},
		`{"Syncs":2}`: {fault: `unknown field "Syncs"; it has syncs`}, `{"x":2}`: {fault: `unknown field "x"; it has syncs`},
		`null`: {fault: "want an object"}, `[]`: {fault: "want an object"}, `5`: {fault: "want an object"}, `{`: {fault: "unexpected EOF"},
		`{} {}`: {fault: "nothing behind it"}, `{"syncs":2}}`: {fault: "nothing behind it"},
	} {
		n, err := Workers([]byte(in), "syncs", 5)
		if want.fault == "" && (err != nil || n != want.n) {
			t.Errorf("%q: %d, %v", in, n, err)
		}
		if want.fault != "" && (err == nil || !strings.Contains(err.Error(), want.fault)) {
			t.Errorf("%q: %v, want %s", in, err, want.fault)
		}
	}
}

func TestUnconfigured(t *testing.T) {
	built := 0
	c := Unconfigured("keeper", func(*controller.Context) (controller.Runner, error) { built++; return nil, nil })
	for in, fault := range map[string]string{"": "", "{}": "", `{"a":1}`: `unknown field "a"; keeper has no configuration`, "null": "want an object"} {
		before := built
		_, err := c.New(&controller.Context{Config: []byte(in)})
		if fault == "" && (err != nil || built != before+1) || fault != "" && (err == nil || !strings.Contains(err.Error(), fault) || built != before) {
			t.Errorf("%q: %v, built %d times", in, err, built-before)
		}
	}
}
