package api_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestStopDrainsWatches: a stop ends what is watched in order, after all that was written before it.
func TestStopDrainsWatches(t *testing.T) {
	var bodies []io.ReadCloser
	t.Run("serves", func(t *testing.T) {
		s := start(t, t.TempDir())
		client := must(rest.HTTPClientFor(must(kubeconfig(s))))
		for range 5 {
			res, err := client.Get(s.URL() + "/api/v1/namespaces/default/configmaps?watch=1")
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			bodies = append(bodies, res.Body)
		}
		last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "the-last"}}
		if _, err := overTLS(t, s).CoreV1().ConfigMaps("default").Create(t.Context(), last, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// Each has it, so that nothing is under way when the server stops.
		for i, body := range bodies {
			seen := &bytes.Buffer{}
			for buf := make([]byte, 512); !bytes.Contains(seen.Bytes(), []byte(`"name":"the-last"`)); {
				n, err := body.Read(buf)
				if err != nil {
					t.Fatalf("watch %d ends while the server runs: %v", i, err)
				}
				seen.Write(buf[:n])
			}
		}
	})
	for i, body := range bodies {
		if rest, err := io.ReadAll(body); err != nil || bytes.Contains(rest, []byte(`"ERROR"`)) {
			t.Errorf("watch %d ends with %q, %v", i, rest, err)
		}
		body.Close()
	}
}
