package loop

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// A record that is too large for the log is left out whole: its attributes could
// be anything.
func TestRecordsAreBounded(t *testing.T) {
	var out bytes.Buffer
	o := OperationsOver("c", dynamicfake.NewSimpleDynamicClient(scheme.Scheme), fake.NewClientset().CoreV1(), slog.New(slog.NewTextHandler(&out, nil)))
	defer o.Close()
	for text, wrote := range map[string]string{"short": "msg=short", strings.Repeat("x", maxRecord): "was left out"} {
		out.Reset()
		record, err := json.Marshal(protocol.Record{Message: "short", Attributes: map[string]any{"nested": []any{map[string]any{"a": text}}}})
		if err != nil {
			t.Fatal(err)
		}
		o.Operate(t.Context(), protocol.FunctionLog, record)
		if got := out.String(); !strings.Contains(got, wrote) || len(got) > 2*maxMessage {
			t.Errorf("%d bytes of a record: %.200s; want %q", len(record), got, wrote)
		}
	}
}
