package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// startProfile takes a profile of the kernel's processor time while something
// runs, and of its heap when the returned function is called; both only where
// a folder for them was given.
func (o options) startProfile(cfg *rest.Config, name string) (done func()) {
	if o.profile == "" {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		fetchProfile(cfg, "/debug/pprof/profile?seconds="+strconv.Itoa(o.profileSeconds), filepath.Join(o.profile, name+".cpu"), time.Duration(o.profileSeconds)*time.Second)
	})
	return func() {
		wg.Wait()
		fetchProfile(cfg, "/debug/pprof/heap?gc=1", filepath.Join(o.profile, name+".heap"), 0)
		fetchProfile(cfg, "/debug/pprof/allocs", filepath.Join(o.profile, name+".allocs"), 0)
	}
}

func fetchProfile(cfg *rest.Config, path, file string, patience time.Duration) {
	err := func() error {
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second+patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", path, resp.Status)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		defer out.Close()
		_, err = io.Copy(out, resp.Body)
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
}
