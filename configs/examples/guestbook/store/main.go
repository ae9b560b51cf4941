// Store keeps the guestbook's entries in a file and serves them over HTTP:
// GET / lists them as JSON, POST / adds one and wants the token of the Secret.
//
// With an argument it talks to the server in the same container, for
// kubectl exec: list prints the entries, sign reads one line and adds it.
package main

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxEntry is the longest entry, in bytes; maxEntries is how many are kept.
const (
	maxEntry   = 1024
	maxEntries = 1000
)

type store struct {
	mu      sync.Mutex
	file    string
	token   string
	entries []string
}

func main() {
	s := &store{file: os.Getenv("STORE_FILE"), token: os.Getenv("STORE_TOKEN")}
	if s.file == "" || s.token == "" {
		log.Fatal("STORE_FILE and STORE_TOKEN must be set")
	}
	if len(os.Args) > 1 {
		if err := command(os.Args[1], s.token); err != nil {
			log.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(s.file); err == nil {
		if err := json.Unmarshal(data, &s.entries); err != nil {
			log.Fatalf("read %s: %v", s.file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.list)
	mux.HandleFunc("POST /{$}", s.add)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	serve(":8080", mux)
}

// serve runs until SIGTERM and lets open requests finish.
func serve(addr string, h http.Handler) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	srv := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 5 * time.Second}
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
	log.Printf("serving on %s", addr)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-done
	log.Print("stopped")
}

func (s *store) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(append([]string{}, s.entries...)); err != nil {
		log.Print(err)
	}
}

func (s *store) add(w http.ResponseWriter, r *http.Request) {
	given := r.Header.Get("Authorization")
	if subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+s.token)) != 1 {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEntry))
	if err != nil || len(body) == 0 {
		http.Error(w, "want 1 to 1024 bytes", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := append(append([]string{}, s.entries...), string(body))
	if len(entries) > maxEntries {
		entries = entries[len(entries)-maxEntries:]
	}
	data, err := json.Marshal(entries)
	if err == nil {
		err = os.WriteFile(s.file+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(s.file+".new", s.file)
	}
	if err != nil {
		log.Print(err)
		http.Error(w, "the entry could not be kept", http.StatusInternalServerError)
		return
	}
	s.entries = entries
	log.Printf("entry %d added", len(entries))
	w.WriteHeader(http.StatusCreated)
}

// command is what kubectl exec runs beside the server.
func command(verb, token string) error {
	const url = "http://127.0.0.1:8080/"
	client := http.Client{Timeout: 5 * time.Second}
	switch verb {
	case "list":
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var entries []string
		if err := json.NewDecoder(resp.Body).Decode(&entries); err != nil {
			return err
		}
		for i, e := range entries {
			fmt.Printf("%d. %s\n", i+1, e)
		}
		return nil
	case "sign":
		fmt.Print("your entry: ")
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if err != nil && line == "" {
			return err
		}
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(strings.TrimSpace(line)))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
		return nil
	}
	return fmt.Errorf("unknown command %q: want list or sign", verb)
}
