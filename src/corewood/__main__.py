from corewood.cli import main

main()
