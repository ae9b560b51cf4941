// Command picky is a predicate in three versions, chosen when it is linked: one
// that lets everything pass, one that keeps pods from golden nodes, and one that
// never answers.
package main

import "pintle.dev/pintle/sdk"

// mood is easy, picky or stuck; -ldflags=-X main.mood=... sets it.
var mood = "easy"

func filter(r *sdk.Request) sdk.Verdict {
	switch {
	case mood == "stuck":
		for {
		}
	case mood == "picky" && r.Node.Labels["tier"] == "gold":
		return sdk.Unfit("node(s) were too good")
	}
	return sdk.Fits()
}

func init() { sdk.Register(sdk.Predicate{Name: "Picky", Filter: filter}) }

func main() { sdk.Serve() }
