package catalog

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// registryOf starts a registry on loopback and returns its host and port; wrap
// may change what it does.
func registryOf(t testing.TB, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	var h http.Handler = registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	// No credentials of who runs the tests.
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return strings.TrimPrefix(s.URL, "http://")
}

func push(t testing.TB, dir, reference string, o PackOptions) *Packed {
	t.Helper()
	got, err := Push(t.Context(), dir, reference, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRegistry(t *testing.T) {
	var fetched []string
	host := registryOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				fetched = append(fetched, filepath.Base(r.URL.Path))
			}
			h.ServeHTTP(w, r)
		})
	})
	key, public := keys(t)
	dir := bundle(t, "1.0.0")
	pushed := push(t, dir, host+"/plugins/quiet:1.0", PackOptions{Key: key})
	if pushed.Plain || pushed.SignedBy != key.ID {
		t.Errorf("pushed %+v", pushed)
	}
	c := newCatalog(t, PolicyRequire, public)
	got := install(t, c, host+"/plugins/quiet:1.0")
	if got.Digest != pushed.Digest || got.Source != pushed.Reference || got.Signature == nil {
		t.Errorf("installed %+v, pushed %+v", got, pushed)
	}
	// The build for another platform is pinned, and not fetched.
	arm := digestOf([]byte("arm of 1.0.0"))
	if got.Artifacts["process/linux/arm64"] != arm {
		t.Errorf("artifacts %v", got.Artifacts)
	}
	if manifest.Platform() != "linux/arm64" && strings.Contains(strings.Join(fetched, " "), arm) {
		t.Error("the build for another platform was fetched")
	}
	if _, err := c.Find("quiet", "", ""); err != nil {
		t.Error(err)
	}
	// A tag that moves is another bundle; the lock holds on to what it names.
	push(t, bundle(t, "1.0.1"), host+"/plugins/quiet:1.0", PackOptions{Key: key})
	if err := removeTree(got.Directory); err != nil {
		t.Fatal(err)
	}
	again, err := c.Restore(t.Context(), InstallOptions{})
	if err != nil || len(again) != 1 || again[0].Digest != got.Digest {
		t.Errorf("restored %+v, %v", again, err)
	}
	// The same package has the same signed manifest in a file.
	p, err := Open(t.Context(), tarball(t, dir, PackOptions{}), t.TempDir(), SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if digestOf(p.Image) != pushed.Image {
		t.Errorf("in a file it has manifest %s, in the registry %s", digestOf(p.Image), pushed.Image)
	}
	// A second signature is added to the first.
	second, _ := keys(t)
	push(t, dir, host+"/plugins/quiet:1.0", PackOptions{Key: second})
	if _, err := c.VerifySource(t.Context(), host+"/plugins/quiet:1.0", SourceOptions{}); err != nil {
		t.Error(err)
	}
}

// TestRegistryThatRefusesTypes gets a plain image instead (known trap: some
// registries refuse WASM media types).
func TestRegistryThatRefusesTypes(t *testing.T) {
	host := registryOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
				body, err := io.ReadAll(r.Body)
				if err != nil || bytes.Contains(body, []byte("application/wasm")) {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"errors":[{"code":"MANIFEST_INVALID","message":"unknown media type"}]}`)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
			}
			h.ServeHTTP(w, r)
		})
	})
	key, public := keys(t)
	pushed := push(t, bundle(t, "1.0.0"), host+"/quiet:1.0", PackOptions{Key: key})
	if !pushed.Plain {
		t.Errorf("pushed %+v", pushed)
	}
	c := newCatalog(t, PolicyRequire, public)
	got := install(t, c, host+"/quiet:1.0")
	if got.Digest != pushed.Digest || got.Source != pushed.Reference || got.Signature == nil {
		t.Errorf("installed %+v, pushed %+v", got, pushed)
	}
	if _, err := c.Find("quiet", "", ""); err != nil {
		t.Error(err)
	}
}

// TestHostileRegistry: what a registry says is compared with what it sends.
func TestHostileRegistry(t *testing.T) {
	dir := bundle(t, "1.0.0")
	change := func(t *testing.T, suffix string, change func([]byte) []byte) string {
		t.Helper()
		return registryOf(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, suffix) {
					h.ServeHTTP(w, r)
					return
				}
				record := httptest.NewRecorder()
				h.ServeHTTP(record, r)
				for k, v := range record.Header() {
					w.Header()[k] = v
				}
				body := change(record.Body.Bytes())
				w.Header().Set("Content-Length", "")
				w.Header().Del("Content-Length")
				w.WriteHeader(record.Code)
				_, _ = w.Write(body)
			})
		})
	}
	evil := func(data []byte) []byte { return bytes.Repeat([]byte("x"), len(data)) }
	t.Run("another layer", func(t *testing.T) {
		host := change(t, "/blobs/"+digestOf([]byte("words of 1.0.0")), evil)
		push(t, dir, host+"/quiet:1", PackOptions{})
		_, err := newCatalog(t, PolicyOff).Install(t.Context(), host+"/quiet:1", InstallOptions{})
		wants(t, err, ErrDigest, digestOf([]byte("words of 1.0.0")))
	})
	t.Run("a cut layer", func(t *testing.T) {
		host := change(t, "/blobs/"+digestOf([]byte("words of 1.0.0")), func(data []byte) []byte { return data[:3] })
		push(t, dir, host+"/quiet:1", PackOptions{})
		if _, err := newCatalog(t, PolicyOff).Install(t.Context(), host+"/quiet:1", InstallOptions{}); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("an endless layer", func(t *testing.T) {
		host := change(t, "/blobs/"+digestOf([]byte("words of 1.0.0")), func(data []byte) []byte { return bytes.Repeat([]byte("x"), 1<<20) })
		push(t, dir, host+"/quiet:1", PackOptions{})
		small := standardLimits()
		small.bytes = 64 << 10
		_, err := newCatalog(t, PolicyOff).Install(t.Context(), host+"/quiet:1", InstallOptions{SourceOptions: SourceOptions{limits: &small}})
		if err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("another manifest", func(t *testing.T) {
		host := change(t, "/manifests/1", func(data []byte) []byte { return bytes.Replace(data, []byte("quiet"), []byte("queit"), 1) })
		push(t, dir, host+"/quiet:1", PackOptions{})
		// By its digest it is refused, by its tag it is what the registry says.
		pushed := push(t, dir, host+"/quiet:2", PackOptions{})
		other := change(t, "/manifests/"+pushed.Image, evil)
		push(t, dir, other+"/quiet:2", PackOptions{})
		if _, err := newCatalog(t, PolicyOff).Install(t.Context(), other+"/quiet@"+pushed.Image, InstallOptions{}); err == nil {
			t.Error("it was taken")
		}
	})
	t.Run("is not there", func(t *testing.T) {
		host := registryOf(t, nil)
		_, err := newCatalog(t, PolicyOff).Install(t.Context(), host+"/quiet:1", InstallOptions{})
		if err == nil || !strings.Contains(err.Error(), host) {
			t.Error(err)
		}
		_, err = newCatalog(t, PolicyOff).Install(t.Context(), host+"/quiet", InstallOptions{})
		if err == nil || !strings.Contains(err.Error(), "names neither tag nor digest") {
			t.Error(err)
		}
		_, err = newCatalog(t, PolicyOff).Install(t.Context(), "nowhere/quiet", InstallOptions{})
		if err == nil || !strings.Contains(err.Error(), "neither a folder nor a file, nor an OCI reference") {
			t.Error(err)
		}
	})
}

// TestRegistryCredentials come from docker's configuration.
func TestRegistryCredentials(t *testing.T) {
	host := registryOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, word, ok := r.BasicAuth(); !ok || user != "ada" || word != "lovelace" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	dir := bundle(t, "1.0.0")
	if _, err := Push(t.Context(), dir, host+"/quiet:1", PackOptions{}); err == nil {
		t.Error("pushed without credentials")
	}
	config := `{"auths":{"` + host + `":{"auth":"YWRhOmxvdmVsYWNl"}}}` // ada:lovelace
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	push(t, dir, host+"/quiet:1", PackOptions{})
	install(t, newCatalog(t, PolicyOff), host+"/quiet:1")
}

func TestPlainHTTPOnLoopbackOnly(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	for reference, plain := range map[string]bool{
		"localhost:5000/a:1": true, "127.0.0.1:5000/a:1": true, "127.1.2.3/a:1": true, "[::1]:5000/a:1": true,
		"registry.example.com/a:1": false, "10.0.0.1:5000/a:1": false, "localhost.example.com/a:1": false,
	} {
		repo, err := repository(reference, false)
		if err != nil {
			t.Error(err)
			continue
		}
		if repo.PlainHTTP != plain {
			t.Errorf("%s: plain HTTP %v", reference, repo.PlainHTTP)
		}
	}
}
