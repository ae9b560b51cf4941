package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestDecisionsAreCurrent fails when the drawing or upstream's version changed and
// the answers that Pintle is tested against were not written anew (make
// peer-goldens). What was recorded of kube-scheduler's tests is asked again as it
// was recorded.
func TestDecisionsAreCurrent(t *testing.T) {
	f, err := os.Open("../../../kernel/peer/testdata/scheduling.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Register()
	var want bytes.Buffer
	if err := drawn(t.Context(), &want, checkedIn, 1, ""); err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for r := bufio.NewReader(z); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var c cluster
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(c.Family, "Table-") {
			if now, _ := want.ReadBytes('\n'); !bytes.Equal(line, now) {
				t.Fatalf("%s is not what kube-scheduler says, or not what is drawn; run make peer-goldens", c.ID)
			}
			continue
		}
		recorded++
		have, err := json.Marshal(c.Answers)
		if err != nil {
			t.Fatal(err)
		}
		c.Answers = nil
		if err := judgeAll(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if now, _ := json.Marshal(c.Answers); !bytes.Equal(have, now) {
			t.Errorf("%s: kube-scheduler says something else; run make peer-goldens\nhave %s\nnow  %s", c.ID, have, now)
		}
	}
	if want.Len() > 0 || recorded < 300 {
		t.Errorf("%d bytes of drawn clusters are not there, and %d clusters of kube-scheduler's tests are; run make peer-goldens", want.Len(), recorded)
	}
}
