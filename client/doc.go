// Package client is the Go client of axd's HTTP API, and holds the API's JSON
// shapes: the api package serves them, so that there is one definition.
package client
