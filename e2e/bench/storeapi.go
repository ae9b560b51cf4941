package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

const listed = "listed" // the namespace of the 10,000 pods

// prepare makes what pods need in their namespace.
func (s *apiServer) prepare(ctx context.Context, names ...string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	for _, name := range names {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !isExists(err) {
			return err
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{}); err != nil && !isExists(err) {
			return err
		}
	}
	return nil
}

// create makes n pods from several workers and returns how many a second.
func (s *apiServer) create(ctx context.Context, namespace, prefix string, n, workers int) (float64, error) {
	client, err := s.client()
	if err != nil {
		return 0, err
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var faults failures
	begin := time.Now()
	for range workers {
		wg.Go(func() {
			for !faults.any() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				pod := samplePod(fmt.Sprintf("%s-%d", prefix, i))
				pod.Namespace = namespace
				if _, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					faults.add(fmt.Errorf("%s: create pod %s: %w", s.name, pod.Name, err))
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(begin).Seconds(), faults.all()
}

// failures are what went wrong in several goroutines; the first few are kept.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.errs) < 3 {
		f.errs = append(f.errs, err)
	}
}

func (f *failures) any() bool { return f.all() != nil }

func (f *failures) all() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// listForm is how a client asks for a list.
type listForm struct{ name, accept, encoding string }

var listForms = []listForm{
	{"JSON", runtime.ContentTypeJSON, "identity"},
	{"protobuf", runtime.ContentTypeProtobuf, "identity"},
	{"JSON, gzip", runtime.ContentTypeJSON, "gzip"},
}

// list reads all pods of a namespace in one answer and returns the time until
// its last byte was read, and the bytes. Decoding it is the client's affair.
func (s *apiServer) list(ctx context.Context, client *http.Client, form listForm) (took time.Duration, bytes int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Host+"/api/v1/namespaces/"+listed+"/pods", nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Accept", form.accept)
	req.Header.Set("Accept-Encoding", form.encoding)
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	bytes, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: list answered %s", s.name, resp.Status)
	}
	return time.Since(begin), bytes, err
}

// countListed asserts what a list holds.
func (s *apiServer) countListed(ctx context.Context, client *http.Client, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Host+"/api/v1/namespaces/"+listed+"/pods", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return fmt.Errorf("%s: list: %w", s.name, err)
	}
	names := map[string]bool{}
	for _, item := range list.Items {
		names[item.Metadata.Name] = true
	}
	if len(names) != want {
		return fmt.Errorf("%s: %d pods were acknowledged, a list has %d", s.name, want, len(names))
	}
	return nil
}

// hot reads one object from several connections for a while, and returns the
// reads a second. The client is a thin one (HTTP/1.1 over TLS, JSON that is
// read and not decoded): it shares the processors with the server, and a full
// client would measure itself.
func (s *apiServer) hot(ctx context.Context, path string, workers int, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var reads atomic.Int64
	var wg sync.WaitGroup
	var faults failures
	begin := time.Now()
	for range workers {
		wg.Go(func() {
			faults.add(s.readHot(ctx, path, &reads))
		})
	}
	wg.Wait()
	return float64(reads.Load()) / time.Since(begin).Seconds(), faults.all()
}

func (s *apiServer) readHot(ctx context.Context, path string, reads *atomic.Int64) error {
	conn, err := s.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	host := strings.TrimPrefix(s.cfg.Host, "https://")
	authorization := ""
	if s.cfg.BearerToken != "" {
		authorization = "Authorization: Bearer " + s.cfg.BearerToken + "\r\n"
	}
	request := []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nAccept: application/json\r\n" + authorization + "\r\n")
	reader := bufio.NewReaderSize(conn, 16<<10)
	for ctx.Err() == nil {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || n < 200 {
			return fmt.Errorf("%s: %s answered %s with %d bytes", s.name, path, resp.Status, n)
		}
		reads.Add(1)
	}
	return nil
}

// dial opens a connection for HTTP/1.1.
func (s *apiServer) dial(ctx context.Context) (net.Conn, error) {
	config, err := rest.TLSConfigFor(s.cfg)
	if err != nil {
		return nil, err
	}
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", strings.TrimPrefix(s.cfg.Host, "https://"))
}
