// Package loop calls a function once a period: proxies look by it whether somebody else
// changed their rules.
//
// Who starts a Loop stops it. Stop waits for a call that runs, so that the caller must hold no
// lock that the function takes.
//
// It imports nothing of Pintle.
package loop
