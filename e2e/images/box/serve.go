package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// serve answers HTTP on :8080 and gRPC health on :9090:
//
//	/          host name, and the caller's address
//	/healthz   200 while well, 503 after /sick
//	/sick      makes it unwell for HTTP and gRPC
//	/bytes     as many zeros as n says
//	/work      uses a processor from now on, as much as it may
//	/rest      uses none any more
//	/log       writes what q says to the log
func serve([]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	var sick atomic.Bool
	checks := health.NewServer()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s\n", host, r.RemoteAddr)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() {
			http.Error(w, "unwell", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /sick", func(w http.ResponseWriter, r *http.Request) {
		sick.Store(true)
		checks.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		fmt.Fprintln(w, "unwell from now on")
	})
	mux.HandleFunc("GET /bytes", func(w http.ResponseWriter, r *http.Request) { // n=COUNT: so many zeros
		left, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for block := make([]byte, 1<<20); left > 0; left -= len(block) {
			if _, err := w.Write(block[:min(left, len(block))]); err != nil {
				return
			}
		}
	})
	var working atomic.Bool // uses a processor as long as it may
	mux.HandleFunc("GET /work", func(http.ResponseWriter, *http.Request) {
		if !working.Swap(true) {
			go func() {
				for working.Load() { // nothing is done, at full speed
				}
			}()
		}
	})
	mux.HandleFunc("GET /rest", func(http.ResponseWriter, *http.Request) { working.Store(false) })
	mux.HandleFunc("GET /log", func(w http.ResponseWriter, r *http.Request) {
		log.Print(r.URL.Query().Get("q"))
	})
	l, err := net.Listen("tcp", ":9090")
	if err != nil {
		return err
	}
	rpc := grpc.NewServer()
	healthpb.RegisterHealthServer(rpc, checks)
	go func() { _ = rpc.Serve(l) }()
	web := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		rpc.Stop()
		_ = web.Shutdown(grace)
	}()
	log.Print("serving")
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-done
	log.Print("stopped")
	return nil
}
