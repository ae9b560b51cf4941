// Tool is the only program in the image that the tests of the node agent run.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		os.Exit(64)
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "serve": // answers its environment and files until SIGTERM
		fmt.Println("serving")
		fmt.Fprintln(os.Stderr, "to stderr")
		http.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, strings.Join(os.Environ(), "\n")) })
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		go func() { panic(http.ListenAndServe(":8080", nil)) }()
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		<-c
		fmt.Println("bye")
	case "cat":
		for _, f := range args {
			data, err := os.ReadFile(f)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Stdout.Write(data)
		}
	case "stdin":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "write":
		if err := os.WriteFile(args[0], []byte(args[1]), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "exit":
		n, _ := strconv.Atoi(args[0])
		if len(args) > 1 {
			_ = os.WriteFile("/dev/termination-log", []byte(args[1]), 0o644)
		}
		os.Exit(n)
	case "sleep":
		d, _ := time.ParseDuration(args[0])
		time.Sleep(d)
	}
}
