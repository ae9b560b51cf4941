// Frontend is the guestbook's page. It reads and adds entries through the
// Service of the store, whose address it finds in its environment.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
<form method="post"><input name="entry" maxlength="1000" autofocus> <button>Sign</button></form>
<ul>{{range .Entries}}<li>{{.}}</li>
{{end}}</ul>
<p>served by {{.Pod}}</p>
`))

type frontend struct {
	store, token, titleFile, pod string
	client                       http.Client
}

func main() {
	f := &frontend{
		store:     "http://" + net.JoinHostPort(os.Getenv("STORE_SERVICE_HOST"), os.Getenv("STORE_SERVICE_PORT")) + "/",
		token:     os.Getenv("STORE_TOKEN"),
		titleFile: os.Getenv("TITLE_FILE"),
		pod:       os.Getenv("POD_NAME"),
		client:    http.Client{Timeout: 5 * time.Second},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", f.show)
	mux.HandleFunc("POST /{$}", f.sign)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	srv := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			log.Print(err)
		}
	}()
	log.Printf("serving on :8080, store at %s", f.store)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-done
	log.Print("stopped")
}

// title is read anew each time: a changed ConfigMap shows without a restart.
func (f *frontend) title() string {
	text, err := os.ReadFile(f.titleFile)
	if err != nil {
		return "Guestbook"
	}
	return strings.TrimSpace(string(text))
}

func (f *frontend) show(w http.ResponseWriter, r *http.Request) {
	entries, err := f.entries(r.Context())
	if err != nil {
		log.Print(err)
		http.Error(w, "the store does not answer", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	data := struct {
		Title, Pod string
		Entries    []string
	}{f.title(), f.pod, entries}
	if err := page.Execute(w, data); err != nil {
		log.Print(err)
	}
}

func (f *frontend) entries(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.store, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var entries []string
	if err := json.NewDecoder(io.LimitReader(resp.Body, 4<<20)).Decode(&entries); err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return entries, nil
}

func (f *frontend) sign(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	entry := strings.TrimSpace(r.PostFormValue("entry"))
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, f.store, strings.NewReader(entry))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	resp, err := f.client.Do(req)
	if err != nil {
		log.Print(err)
		http.Error(w, "the store does not answer", http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		http.Error(w, "the store refused the entry", http.StatusBadGateway)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
